"""What others write into etcd, and names from elsewhere, are printed as text: no shell and no terminal obeys them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from loadtest.stack.proxy import Proxy
from loadtest.stack.servers import Etcd
from lock import Client
from lock.cli.exit_codes import Exit
from tests.lock.cli.conftest import Invoke, Start
from tests.support.lock import WAIT_S, await_keys, delete, keys, metric, put
from tests.support.waiting import wait_until

# FILE stands for a file that is made where any of it is executed. The end of it makes it a long one.
FOREIGN = (
    "x\ntouch FILE\nEOF\ntouch FILE\r\nholds  1  x  y\n"
    "\x1b[2J\x1b]0;title\x07\x9b31m\x85\u2028\u202e\x7f"
    'it\'s "odd" \\ \\n \'; touch FILE; \'\t"; touch FILE; "\n\'"'
    "$(touch FILE) `touch FILE` ${HOME} $LEASE_A !! !$ %s %% \\0101 & touch FILE; CreateRevision : 1\n7"
    f"\udcff\udc80ü\udcc3{'x ' * 700}\n"
)
WATCHERS = "etcd_debugging_mvcc_watcher_total"


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[str]:
    yield FOREIGN.replace("FILE", str(tmp_path / "executed"))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def start(start: Start) -> Start:
    """As bytes, with a pipe for its input."""
    return partial(start, text=False, stdin=subprocess.PIPE)


def lines(output: str | bytes) -> list[str]:
    """The records of an output, each of which is one line that does nothing to a terminal."""
    text = output if isinstance(output, str) else output.decode()
    found = text.removesuffix("\n").split("\n")
    assert [each for each in found if not each.isprintable()] == []
    return found


def next_lines(process: subprocess.Popen[bytes], number: int) -> list[str]:
    assert process.stdout is not None
    found = lines(b"".join(process.stdout.readline() for _ in range(number)))
    assert len(found) == number
    return found


def test_a_foreign_key_and_name_are_printed_as_text(client: Client, invoke: Invoke, name: str, foreign: str) -> None:
    """A key, a value, and a name that others chose stand on one line each, in what is listed and in errors."""
    [told] = lines(invoke("contenders", f"{name}/{foreign}x").stdout)
    assert told.endswith(" is free: no holder, no waiter")
    kv = put(client, f"{name}/{foreign}", foreign.encode("utf-8", "surrogateescape"))
    _, shown = lines(invoke("contenders", name).stdout)
    assert re.match(rf"holds +{kv.create_revision} +'", shown)
    for option in ("--try", "--timeout=0.1"):
        refused = invoke(option, name)
        assert refused.exit_code == Exit.NOT_ACQUIRED
        [told] = lines(refused.stderr)
        assert "another client" in told
        assert max(len(shown), len(told)) < 2500
    assert len(lines(invoke("break", name, "--yes").stdout)) == 4
    wrong = invoke(name, foreign)
    assert wrong.exit_code == 2
    assert "write -- in front" in lines(wrong.stderr)[-1]


def test_a_foreign_name_reaches_the_command(
    client: Client, invoke: Invoke, start: Start, name: str, foreign: str
) -> None:
    """Printed on one line where a shell reads it; and in the variable of the command as it is."""
    name = f"{name}/{foreign}x"
    process = start(name)
    assert next_lines(process, 2)[0] == repr(keys(client, name)[0])
    assert len(lines(invoke("list", name).stdout)) == 2
    delete(client, keys(client, name)[0])
    _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == Exit.LOST
    assert "was deleted from elsewhere" in lines(errors)[-1]
    process = start(name, "--", "sh", "-c", 'printf %s "$ETCD_LOCK_KEY"; read _')
    await_keys(client, name, 1)
    [key] = keys(client, name)
    output, _ = process.communicate(b"\n", timeout=WAIT_S)
    assert output == key.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(["sh", "-eu"], id="piped"),
        pytest.param(["bash", "--norc", "-i"], id="pasted", marks=pytest.mark.slow),
    ],
)
def test_the_trace_of_a_foreign_name_runs_as_printed(
    etcd: Etcd, client: Client, start: Start, etcdctl_env: dict[str, str], shell: list[str], foreign: str
) -> None:
    """Each command of it is one line with every byte of the name, for a shell as for etcdctl, and nothing else runs."""
    name = f"trace/{foreign}x"
    kv, watchers = put(client, f"{name}/{foreign}"), metric(etcd, WATCHERS)
    tracing = start("trace", name)
    wait_until(lambda: metric(etcd, WATCHERS) == watchers + 1)
    delete(client, kv.key)
    script, _ = tracing.communicate(timeout=WAIT_S)
    assert any(" is told: DELETE " in each for each in lines(script) if each.startswith("# A"))
    script = script.replace(b"lease grant 10 ", b"lease grant 600 ")  # on a busy machine
    done = subprocess.run(shell, input=script, env=etcdctl_env, capture_output=True, timeout=WAIT_S)
    assert shell[0] == "bash" or done.stderr == b""  # prompts
    first, second = re.findall(rb"^lease (\w+) revoked$", done.stdout, re.MULTILINE)
    assert [client.time_to_live(int(lease, 16)).ttl for lease in (first, second)] == [-1, -1]
    assert f"{name}/".encode("utf-8", "surrogateescape") + first in done.stdout  # B lists A's key
    assert keys(client, name) == []


def test_warnings_of_the_library_are_lines_as_well(start: Start, proxy: Proxy, name: str) -> None:
    """When etcd falls silent, all that is told of it are lines that name the command."""
    process = start(f"{name}\n", "--ttl", "1", "--endpoints", proxy.endpoint)
    next_lines(process, 2)
    proxy.stall()
    _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == Exit.LOST
    assert [each for each in lines(errors) if not each.startswith("etcd-lock: ")] == []
