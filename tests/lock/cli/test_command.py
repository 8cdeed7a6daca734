"""`python -m lock`: holds a lock for the shell, and ends what runs under it when it is lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from loadtest.stack.servers import Etcd
from lock import Client, Election, Mutex, ReadWriteLock, Semaphore, Session
from lock.__main__ import main
from lock.cli.exit_codes import Exit
from lock.cli.hold import hold
from lock.cli.trace import Log
from lock.etcd.transport import Observer
from tests.lock.cli.conftest import LOCK, Invoke, Start
from tests.support.lock import WAIT_S, delete, keys, put, queue_up
from tests.support.waiting import Patch, wait_until

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(etcdctl_env: dict[str, str]) -> Run:
    """Runs `python -m lock` with these arguments to its end."""
    options: dict[str, Any] = {"env": etcdctl_env, "capture_output": True, "text": True, "timeout": WAIT_S}
    return lambda *args, **more: subprocess.run([*LOCK, *args], **options, **more)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGUSR1, 128 + signal.SIGUSR1)])
def test_a_signal_ends_a_wait_and_a_hold(client: Client, start: Start, name: str, number: int, code: int) -> None:
    """A hold prints key and token, and ends with 0 if asked to; a wait ends with 128+N. Neither leaves a key."""
    holder = start(name)
    key, token = line(holder), line(holder)
    [kv] = client.get_prefix(f"{name}/").keys
    assert (kv.key, str(kv.create_revision)) == (key, token)
    waiter = start(name, "--", "echo", "never")
    wait_until(lambda: len(keys(client, name)) == 2)
    waiter.send_signal(signal.SIGINT)
    assert waiter.communicate(timeout=WAIT_S)[0] == ""
    assert waiter.returncode == 128 + signal.SIGINT
    assert keys(client, name) == [key]
    holder.send_signal(number)
    assert holder.wait(WAIT_S) == code
    assert keys(client, name) == []
    assert client.time_to_live(kv.lease_id).ttl == -1


def test_the_child_gets_key_revision_and_token(client: Client, session: Session, start: Start) -> None:
    """ETCD_LOCK_KEY and LOCK_TOKEN are those of the hold; ETCD_LOCK_REV is a revision at which it was held."""
    hold = Mutex(session, "command/environment").acquire(timeout=WAIT_S)
    script = "echo $ETCD_LOCK_KEY $ETCD_LOCK_REV $LOCK_TOKEN; read _"  # or its own release is a revision, too
    process = start("command/environment", "--", "sh", "-c", script, stdin=subprocess.PIPE)
    wait_until(lambda: len(keys(client, "command/environment")) == 2)
    queued = client.get_prefix("command/environment/").keys[1]
    hold.release()
    released = client.get_prefix("command/environment/").revision
    key, revision, token = line(process).split()
    assert (key, int(token)) == (queued.key, queued.create_revision)
    assert int(revision) >= released > int(token)
    process.communicate("\n", timeout=WAIT_S)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["sh", "-c", "exit 255"], 255, ""),
        (["sh", "-c", "kill -9 $$"], 128 + 9, ""),
        (["./no-such-command"], 127, "./no-such-command"),
        (["/"], 126, "cannot run '/'"),
    ],
)
def test_the_childs_exit_code_passes_through(
    client: Client, run: Run, name: str, command: list[str], code: int, said: str
) -> None:
    """The command's exit code is ours, 128+N where signal N ended it, 126 or 127 where it cannot run (case m)."""
    done = run(name, "--", *command)
    assert (done.returncode, said in done.stderr) == (code, True)
    assert keys(client, name) == []


def test_the_child_gets_arguments_and_standard_input(run: Run, tmp_path: Path) -> None:
    """Whatever stands behind -- belongs to the command, also options with our names and another --."""
    (tmp_path / "input").write_text("through,")
    arguments = ["sh", "-c", 'cat; printf "%s," "$@"', "sh", "--ttl", "x y", "--", "--help", ""]
    with (tmp_path / "input").open() as given:
        assert (
            run("--try", "command/arguments", "--", *arguments, stdin=given).stdout == "through,--ttl,x y,--,--help,,"
        )


def test_signals_are_passed_on_to_the_child(client: Client, start: Start, name: str) -> None:
    """The child gets each, may answer it in its own time, and its exit code is ours (pitfall 22)."""
    numbers = [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
    traps = 'for each in INT HUP USR1 USR2; do trap "echo $each" $each; done; trap "exit 42" TERM'
    process = start(name, "--", "bash", "-c", f"{traps}; echo up; while :; do sleep 0.05; done")
    assert line(process) == "up"
    for number in numbers:
        process.send_signal(number)
        assert line(process) == number.name.removeprefix("SIG")
    process.terminate()
    assert process.wait(WAIT_S) == 42
    assert keys(client, name) == []


def test_an_ignored_signal_stays_ignored(start: Start) -> None:
    """Under nohup a hang-up reaches neither us nor the child."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start("command/nohup", "--", "sh", "-c", "echo up; read _; echo down", stdin=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert line(process) == "up"
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate("\n", timeout=WAIT_S)
    assert (process.returncode, output) == (0, "down\n")


def test_a_child_that_obeys_is_not_killed(client: Client, start: Start) -> None:
    """When the lock is lost the child may clean up: its trap runs to the end within the grace."""
    script = "trap 'sleep 0.2; echo cleaned; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    process = start("command/obeys", "--grace", str(WAIT_S), "--", "bash", "-c", script)
    assert line(process) == "up"
    delete(client, keys(client, "command/obeys")[0])
    output, _ = process.communicate(timeout=WAIT_S)
    assert (process.returncode, output) == (Exit.LOST, "cleaned\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "Usage"),
        (("--ttl", "5"), "NAME"),
        (("name", "ls", "x"), r"name -- ls x"),
        (("name", "--"), "behind --"),
        (("name", "--ttl", "0", "--", "ls"), "ttl"),
        (("name", "--timeout", "-1"), "timeout"),
        (("name", "--try", "--timeout", "1"), "--try"),
        (("name", "--no-such-option"), "--no-such-option"),
        (("a//b", "--", "ls"), "a/b"),
        (("name", "--endpoints", "nonsense"), "HOST:PORT"),
        (("name", "--endpoints", "https://127.0.0.1:2379"), "--cacert"),
        (("name", "--cert", "x.pem"), "--cacert"),
        (("name", "--cacert", "/no/such/file"), "/no/such/file"),
        (("name", "--password", "secret"), "user"),
        (("contenders",), "NAME"),
        (("--ttl", "5", "contenders"), "--ttl"),
        (("--no-such-option", "contenders", "x"), "--no-such-option"),
        (("--", "contenders", "x"), "NAME"),
        (("trace", "--timeout", "1", "--", "--endpoints=a:1"), "option"),
    ],
)
def test_wrong_usage_says_what_to_do(args: tuple[str, ...], message: str) -> None:
    """Wrong usage is exit 2 with one sentence that names the culprit."""
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("hold", "trace"),
        ("trace",),
        ("--timeout", "5", "trace"),
        ("--timeout=5", "hold", "trace"),
        ("--user", "trace:contenders", "--try", "hold"),
        ("hold",),
        ("--try", "another"),
    ],
    ids=" ".join,
)
def test_a_name_like_a_subcommand_can_be_locked(monkeypatch: Patch, args: tuple[str, ...]) -> None:
    """`hold NAME` and `NAME --` lock whatever the name is, options in front or not."""
    locked: list[str] = []
    monkeypatch.setattr(hold, "callback", lambda *, name, **_: locked.append(name))
    assert CliRunner().invoke(main, [*args, "--", "echo", "in"]).exit_code == 0
    assert locked == [args[-1]]


def test_contenders_lists_the_queue(client: Client, session: Session, stranger: Session, invoke: Invoke) -> None:
    """Holder and waiters, with token, TTL, key and readable owner."""
    hold = Mutex(session, "command/queue").acquire(timeout=WAIT_S)
    waiting = queue_up(client, Mutex(stranger, "command/queue"))
    _, first, second = invoke("contenders", "command/queue").stdout.splitlines()
    assert re.match(rf"holds +{hold.token} +\d+\.\d s +\d+ s +{hold.key} +ours \(host .*\)$", first)
    assert re.match(r"waits, 1\. +\d+ .* stranger \(host .*\)$", second)
    hold.release()
    waiting.result(WAIT_S).release()


def test_options_win_over_the_environment(invoke: Invoke, etcd: Etcd) -> None:
    """Where etcd is said by option, also in front, and by variable, the option counts; without etcd it is exit 69."""
    words = ("contenders", "x", "--endpoints", etcd.endpoint)
    for args in (words, (*words[2:], *words[:2])):
        assert invoke(*args, ETCDCTL_ENDPOINTS="127.0.0.1:9").stdout == "x is free: no holder, no waiter\n"
    assert "Usage: main contenders " in invoke(*words[2:], "contenders", "--help").stdout
    done = invoke("contenders", "x", ETCDCTL_ENDPOINTS="127.0.0.1:9")
    assert (done.exit_code, "127.0.0.1:9" in done.stderr.splitlines()[-1]) == (Exit.UNAVAILABLE, True)


def test_readers_and_permits_share_a_name(client: Client, run: Run, invoke: Invoke, name: str) -> None:
    """--shared and --limit let several hold; `contenders` tells who does, and another limit is refused."""
    nested = f"{sys.executable} -m lock --shared --timeout 5 {name}/a -- {sys.executable} -m lock contenders {name}/a"
    told = run("--shared", f"{name}/a", "--", "sh", "-c", nested)
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("holds (read)") == 2
    nested = f'test -z "$LOCK_TOKEN" && {sys.executable} -m lock --limit 3 {name}/b -- true'
    told = run("--limit", "2", f"{name}/b", "--", "sh", "-c", nested)
    assert (told.returncode, "limit of 2, not 3" in told.stderr) == (Exit.FAILED, True)
    assert invoke("--shared", "--limit", "2", name).exit_code == 2
    assert client.get_prefix(f"{name}/").keys == []


# trace: what it prints is true, and runs as printed


def test_every_operation_is_printed_in_the_order_of_revisions(invoke: Invoke, monkeypatch: Patch) -> None:
    """Those of each contender are those of the protocol, and B's token is greater than A's.

    A may read the answer to its release after B has acted on that; it stands before that all the same.
    """
    of = Log.of

    def late(log: Log, who: str) -> Observer:
        def note(call: str, request: Any, response: Any, seconds: float) -> None:
            if who == "A" and call == "Txn" and request.success[0].HasField("request_delete_range"):
                log.wait_for("B", ["Txn"] * 2, timeout=WAIT_S)
            of(log, who)(call, request, response, seconds)

        return note

    monkeypatch.setattr(Log, "of", late)
    script = invoke("trace", "trace/all").stdout
    steps = re.findall(r"^# ([AB])  (\w+) +revision \d+ +(?:\d+\.\d ms|pushed)  \S", script, re.MULTILINE)
    for who, keep_alives in (("A", 1), ("B", 0)):
        calls = [call for contender, call in steps if contender == who and call not in ("Watch", "LeaseTimeToLive")]
        waits = [] if who == "A" else ["Txn"]  # B reads when A's key is gone
        assert calls == ["LeaseGrant", "Txn", *["LeaseKeepAlive"] * keep_alives, *waits, "Txn", "LeaseRevoke"]
        assert ("Watch" in [call for contender, call in steps if contender == who]) is (who == "B")
    first, second = map(int, re.findall(r"^# [AB] holds\. Its fencing token is (\d+)", script, re.MULTILINE))
    assert second > first
    assert script.index("frees the lock") < script.index("is told: DELETE") < script.index("no key stands before it")


# list and break: all locks, and one taken away from its holder


def test_list_shows_each_lock_below_a_prefix(
    client: Client, session: Session, stranger: Session, invoke: Invoke, name: str
) -> None:
    """A line for each holder of a mutex, an election, readers, and of Go's and etcdctl's keys; no other keys.

    A lock that waits for one below its name stands behind the holder of that one.
    """
    hold = Mutex(session, f"{name}/stock").acquire(timeout=WAIT_S)
    waiting = queue_up(client, Mutex(stranger, f"{name}/stock"))
    prices = ReadWriteLock(session, f"{name}/prices")
    readers = [prices.read.acquire(timeout=WAIT_S) for _ in range(2)]
    leader = Election(session, f"{name}/leader").campaign("me", timeout=WAIT_S)
    lease = client.grant(60).id
    put(client, f"{name}/go/{lease:x}", lease_id=lease)
    put(client, f"{name}/go-rw/write/1764288000000000000", lease_id=lease)
    below = Mutex(session, f"{name}/up/b").acquire(timeout=WAIT_S)
    blocked = queue_up(client, Mutex(stranger, f"{name}/up"))
    data = [put(client, f"{name}/data/{other}").key for other in ("page", "read/notes", "0", "a//0-1")]
    shown = invoke("list", f"{name}/").stdout.splitlines()
    assert [line.split()[:2] for line in shown[1:]] == [
        [f"{name}/go", "0"], [f"{name}/go-rw", "0"], [f"{name}/leader", "0"], [f"{name}/prices", "0"],
        [f"{name}/prices", "0"], [f"{name}/stock", "1"], [f"{name}/up", "1"], [f"{name}/up/b", "0"],
    ]  # fmt: skip
    assert shown[-2].split()[2] == shown[-1].split()[2] == str(below.token)
    assert re.match(rf"{name}/stock +1 +{hold.token} +\d+\.\d s +\d+ s +ours \(host .*\)$", shown[-3])
    everything = json.loads(invoke("list", "--json").stdout)
    [stock] = [each for each in everything if each["name"] == f"{name}/stock"]
    told = [(each["token"], each["session"], each["holds"]) for each in stock["contenders"]]
    assert told[0] == (hold.token, "ours", True)
    assert told[1][1:] == ("stranger", False)
    for each in (hold, *readers, leader, below):
        each.release()
    for wait in (waiting, blocked):
        wait.result(WAIT_S).release()
    client.revoke(lease)
    for key in data:
        delete(client, key)
    assert invoke("list", f"{name}/").stdout == f"no lock is held or waited for below {name}/\n"
    assert json.loads(invoke("list", "--json", f"{name}/").stdout) == []


def test_break_takes_the_lock_from_its_holder(
    client: Client, session: Session, stranger: Session, invoke: Invoke, name: str
) -> None:
    """After a question, or with --yes: the next one holds, the holder finds it lost, and the token is told.

    Of several holders exit 2 names the tokens, and `--token` breaks that one alone.
    """
    permits = Semaphore(session, name, limit=2)
    other, broken = permits.acquire(timeout=WAIT_S), permits.acquire(timeout=WAIT_S)
    first, second = (str(kv.create_revision) for kv in client.get_prefix(f"{name}/").keys)
    waiting = queue_up(client, Mutex(stranger, name))
    several = invoke("break", name, "--yes")
    assert several.exit_code == 2
    assert f"--token {first} or {second}" in several.stderr
    assert invoke("break", name, "--yes", "--token", "1").stdout == f"{name} has no holder with token 1\n"
    refused = invoke("break", name, "--token", second, input="n\n")
    assert refused.exit_code == 1
    assert f"{name} is held by ours (host " in refused.stderr
    assert len(keys(client, name)) == 3
    assert invoke("break", name, "--token", second, input="y\n").exit_code == 0
    assert broken.lost.wait(WAIT_S)
    other.ensure()
    assert f"Token {first} is fenced off" in invoke("break", name, "--yes").stdout
    assert other.lost.wait(WAIT_S)
    waiting.result(WAIT_S).release()
    assert invoke("break", name, "--yes").stdout == f"{name} has no holder\n"


def test_break_spares_the_next_holder(
    client: Client, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A holder that releases during the question, and queues again under the same key, keeps its new hold."""
    kv = put(client, f"{name}/key")

    def answer(*_: object, **__: object) -> None:
        delete(client, kv.key)
        put(client, kv.key)

    monkeypatch.setattr("click.confirm", answer)
    assert "was released meanwhile" in invoke("break", name).stdout
    assert keys(client, name) == [kv.key]
    delete(client, kv.key)
