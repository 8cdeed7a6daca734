"""The commands: `demo`, `compare` and `up`; what they keep, and what is left however they end."""

from __future__ import annotations

import html
import json
import os
import re
import signal
import socket
import threading
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from app.contract.verdict import Kind
from app.guards import guards
from loadtest.ports import is_occupied
from loadtest.results.comparison import Comparison
from loadtest.shop_client.shops import in_progress
from loadtest.stack.stack import Stack
from tests.loadtest.results.test_record import validator
from tests.support.commands import Command, finished, leaving_nothing, running
from tests.support.rushing import environment
from tests.support.waiting import has_ended, wait_until

pytestmark = pytest.mark.timeout(240)  # the patience of `finished` comes before

SMALL = ["--buyers=60", "--stock=20", "--guard=redis-lua"]


def test_demo_compares_and_reports(tmp_path: Path) -> None:
    """One command starts everything, adds the unlocked baseline, shows the comparison, keeps it, and exits with 0.

    What it keeps fits the schemas.
    """
    done, report = finished(tmp_path, "demo", *SMALL, "--hold-ms=2"), tmp_path / "reports/latest"
    assert done.returncode == 0, done.stdout + done.stderr
    comparison = Comparison.read(report / "comparison.json")
    assert (comparison.stock, comparison.buyers) == (20, 60)
    assert [(run.guard, run.kind) for run in comparison.runs] == [("none", Kind.OVERSOLD), ("redis-lua", Kind.EXACT)]
    assert {"python", "locust", "flask", "etcd"} <= comparison.versions.keys()
    lines = done.stdout.splitlines()
    assert re.match(r"Ready: etcd, redis, instance-\d+, instance-\d+$", lines[0])
    assert re.search(r"^ +60 buyers, 20 items, all clicks within \d+ ms +$", done.stdout, re.M)
    assert re.search(r"^none +\d+ .* OVERSOLD by \d+ +none +$", done.stdout, re.M)
    assert lines[-2] == comparison.sentence
    assert re.match(r"Report: reports/[\d_-]+/index.html$", lines[-1])
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    page = (report / "index.html").read_text(encoding="utf-8")
    assert html.escape(comparison.sentence) in page
    assert page.count("<svg") == 6  # sold and inside for each of two guards, the waiting times, and the first race
    validator("comparison.json").validate(json.loads((report / "comparison.json").read_bytes()))
    records = [json.loads(path.read_bytes()) for path in sorted(report.glob("records/*.json"))]
    assert [record["guard"] for record in records] == ["none", "redis-lua"]
    for record in records:
        validator("record.json").validate(record)
        assert all(record[rows] for rows in ("answers", "ledger", "sections"))


@pytest.mark.slow
def test_a_demo_that_is_kept_says_where_to_look_and_ends_cleanly(tmp_path: Path) -> None:
    """Shops and board go on until SIGTERM; a demo without overselling says that it proves nothing and fails."""
    words = ["demo", "--keep", "--guard=redis-lua", "--buyers=3", "--stock=20"]
    with running(tmp_path, *words, until="Send the rush: ") as demo:
        demo.read_until("\n")
        said = dict(line.split(": ", 1) for line in demo.printed.splitlines() if ": " in line)
        for url in [f"{said['Board']}/livez", said["Locust"], *(f"{url}/livez" for url in said["Shops"].split())]:
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.status == 200
        children = demo.children()
        assert demo.end(signal.SIGTERM) == 1
        wait_until(lambda: all(map(has_ended, children)), timeout=30)
    assert (tmp_path / said["Report"]).exists()
    assert ".venv/bin/locust" in said["Send the rush"]
    assert "FLASHSALE_SECTION_LOG=" in said["Send the rush"]
    assert "proves nothing" in demo.printed


@pytest.mark.slow
def test_all_guards_of_the_shop_are_compared(stack: Stack, tmp_path: Path) -> None:
    """`--all` takes each, in the shop's order."""
    hosts = f"--hosts={','.join(stack.urls)}"
    done = finished(tmp_path, "compare", "--all", "--buyers=3", "--stock=2", hosts, env=environment(stack))
    comparison = Comparison.read(tmp_path / "reports/latest/comparison.json")
    assert ([run.guard for run in comparison.runs], done.returncode) == ([*guards()], 0), done.stdout + done.stderr


# How commands end: by themselves, interrupted, killed, or with nothing left to print to; and what is left then.


DEMO = (["demo", "--guard=etcd", "--hold-ms=20"], "Ready: ")  # then in the middle of the rush
UP = (["up", "--free-ports"], "Buy one item")
# Exit code after an interrupt, and what was printed: log lines carry the name of their process.
ENDS = {
    "demo": (130, [r"\nInterrupted: everything is stopped\.\n\Z"]),
    "up": (0, [r"^etcd +\| ready on port \d+$", r"^(instance-\d+) +\| ready on port \d+$", "Shutting down: Master"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("command", [DEMO, UP], ids=["demo", "up"])
def test_nothing_is_left_whenever_and_however_it_ends(
    tmp_path: Path, command: tuple[list[str], str], number: signal.Signals
) -> None:
    """Ctrl-C or kill -9 in the middle: no process, frozen or not, no directory and no report is left."""
    words, moment = command
    with leaving_nothing(tmp_path, *words, until=moment) as ended:
        if command is DEMO:
            ended.read_until("\n")
            ports = re.findall(r"instance-(\d+)", ended.printed)
            wait_until(lambda: any(in_progress(f"http://127.0.0.1:{port}") for port in ports))
        if number == signal.SIGKILL:
            ended.children()[-1].suspend()  # as a fault does
        code = ended.end(number)
    assert not (tmp_path / "reports/latest").exists()
    if number != signal.SIGKILL:
        assert_ended_well(ended, words[0], code)
        assert list(tmp_path.glob("reports/*")) == []


def assert_ended_well(ended: Command, name: str, code: int) -> None:
    """This command has the exit code that it should have, and has printed its last lines."""
    expected, patterns = ENDS[name]
    assert code == expected, ended.printed
    assert all(re.search(pattern, ended.printed, re.MULTILINE) for pattern in patterns), ended.printed
    assert "\x1b" not in ended.printed


def think(url: str) -> None:
    """Buy one item, and think about it for a minute."""
    with suppress(OSError):
        urllib.request.urlopen(urllib.request.Request(f"{url}/stock/reduce?hold_ms=60000", method="POST"))


@pytest.mark.slow
def test_a_second_interrupt_kills(tmp_path: Path) -> None:
    """It does not wait for the shops, which would finish their purchases for some seconds, and nothing is left."""
    with leaving_nothing(tmp_path, *UP[0], until=UP[1]) as up:
        busy, idle = re.findall(r"http://127.0.0.1:\d+", up.printed.partition("Shops: ")[2])[:2]
        threading.Thread(target=think, args=(busy,), daemon=True).start()
        wait_until(lambda: in_progress(busy))
        up.process.send_signal(signal.SIGINT)
        wait_until(lambda: not is_occupied(int(idle.rpartition(":")[2])))  # so the other one is being waited for
        assert up.end(signal.SIGINT) == 130  # after the first one alone it is 0


@pytest.mark.slow
def test_up_says_what_to_do_when_a_server_has_ended(tmp_path: Path) -> None:
    """The rest runs on until SIGTERM, and the line with the exit code tells how to get it back."""
    with leaving_nothing(tmp_path, *UP[0], until=UP[1]) as up:
        ports = dict(re.findall(r"^([a-z]+)\S* +\| ready on port (\d+)$", up.printed, re.MULTILINE))
        leaders = [child for child in up.children() if os.getpgid(child.pid) == child.pid]
        serving = {line.laddr.port: leader for leader in leaders for line in leader.net_connections()}
        for server, advice in (("redis", "Ctrl-C, and start again"), ("instance", "the board can start it again")):
            serving[int(ports[server])].kill()
            up.read_until(advice)
            assert re.search(rf"^{server}\S* +\| ended with code -9: {advice}$", up.printed, re.MULTILINE)
        code = up.end(signal.SIGTERM)
    assert_ended_well(up, "up", code)


def test_up_names_an_occupied_port(tmp_path: Path) -> None:
    """One line says which port is occupied, and how to choose others; nothing was started."""
    with ExitStack() as port:
        with suppress(OSError):  # another program has it
            port.enter_context(socket.create_server(("127.0.0.1", 8090)))
        done = finished(tmp_path, "up")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r".*already in use: .*port 8090 \(instance-8090\).*Choose others: .*-ports\n", done.stderr)
