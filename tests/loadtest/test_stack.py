"""The stack in the foreground: it opens the sale, says so, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from loadtest.places import places
from loadtest.ports import is_occupied
from loadtest.servers import Redis
from loadtest.stack import Stack
from tests.leftovers import assert_gone, directories_of

UP = [sys.executable, "-m", "loadtest", "up"]


def test_each_instance_sells_under_its_own_name(tmp_path: Path) -> None:
    """Every shop of the stack answers at its URL, with the name of its process; afterwards the ports are free."""
    with Stack(tmp_path, ports="free", env={"FLASHSALE_STOCK": "7"}) as stack:
        for instance, url in zip(stack.instances, stack.urls, strict=True):
            with urllib.request.urlopen(f"{url}/stock", timeout=5) as response:
                answer = json.load(response)
            assert answer["instance"] == instance.name
            assert answer["stock"] == 7
    assert not any(is_occupied(process.port) for process in stack.processes)
    assert [instance.returncode for instance in stack.instances] == [0, 0]


def test_default_ports_are_those_of_the_compose_file(tmp_path: Path) -> None:
    """Without options, the stack is where docker compose puts it; an offset moves all of it."""
    assert [process.port for process in Stack(tmp_path, board=True).processes] == [2379, 6379, 8080, 8090, 8070]
    moved = Stack(tmp_path, port_offset=1000, board=True)
    assert [process.port for process in moved.processes] == [3379, 7379, 9080, 9090, 9070]
    assert (Stack(tmp_path).locust_port, moved.locust_port) == (8089, 9089)


def test_the_board_knows_how_to_start_locust(tmp_path: Path) -> None:
    """Its hint is the line of make up, as a shell takes it: Locust's page where the board looks for it, with the
    evidence, without which a report would have no timelines.
    """
    with Stack(tmp_path / "a stack", ports="free", board=True) as stack:
        assert stack.board is not None
        with urllib.request.urlopen(f"{stack.board.url}/setup", timeout=5) as response:
            setup = json.load(response)
    command = setup["locust_command"]
    assert command == places(stack)["Send the rush"]
    settings = {f"{name}={value}" for name, value in stack.directions.items()}
    page = ["--web-port", str(stack.locust_port), "--host", ",".join(stack.urls)]
    assert set(shlex.split(command)) == {*settings, ".venv/bin/locust", "--headful", *page}
    assert setup["locust"] == f"http://127.0.0.1:{stack.locust_port}"
    assert f"FLASHSALE_EVIDENCE={stack.evidence}" in settings


@contextmanager
def running_up() -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process], str]]:
    """`up` with the sale open, its descendants, and what it has printed so far."""
    with subprocess.Popen([*UP, "--free-ports"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
        assert up.stdout is not None
        try:
            printed = ""
            while "Buy one item" not in printed:
                line = up.stdout.readline()
                assert line, printed
                printed += line
            yield up, psutil.Process(up.pid).children(recursive=True), printed
        finally:
            up.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_stops_cleanly(number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end `up` with code 0; no process and no directory is left, every server had time to end."""
    with running_up() as (up, children, _):
        directories = directories_of(children)
        up.send_signal(number)
        rest, _ = up.communicate(timeout=30)
        assert up.returncode == 0, rest
    assert "Shutting down: Master" in rest
    assert_gone(children, directories)


def test_nothing_outlives_a_killed_up() -> None:
    """After kill -9 of `up`, all its servers end and its directory is removed."""
    with running_up() as (up, children, _):
        directories = directories_of(children)
        up.kill()
    assert_gone(children, directories)


def test_up_prefixes_each_line_with_its_process() -> None:
    """Log lines carry the name of their process, without colour codes when the output is not a terminal."""
    with running_up() as (_, _, printed):
        pass
    assert re.search(r"^etcd +\| ready on port \d+$", printed, re.MULTILINE)
    assert re.search(r"^(instance-\d+) +\| .*Listening at", printed, re.MULTILINE)
    assert "\x1b" not in printed


def test_up_names_an_occupied_port(redis_server: Redis) -> None:
    """One line says which port is occupied, and how to choose others; nothing was started."""
    offset = redis_server.port - 6379
    answer = subprocess.run([*UP, f"--port-offset={offset}"], capture_output=True, text=True, timeout=20)
    assert answer.returncode == 1
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert f"already in use: port {redis_server.port} (redis)" in line
    assert "make up ARGS=--free-ports" in line


@pytest.mark.parametrize(
    ("server", "advice"), [("redis", "Ctrl-C, and start again"), ("instance-", "the board can start it again")]
)
def test_up_says_what_to_do_when_a_server_has_ended(server: str, advice: str) -> None:
    """The rest runs on, and the line with the exit code tells how to get it back."""
    with running_up() as (up, children, printed):
        assert up.stdout is not None
        (port, *_) = re.findall(rf"^{server}\S* +\| ready on port (\d+)$", printed, re.MULTILINE)
        leaders = [child for child in children if os.getpgid(child.pid) == child.pid]
        next(each for each in leaders if int(port) in {line.laddr.port for line in each.net_connections()}).kill()
        while " ended with code -9: " not in (line := up.stdout.readline()):
            assert line, "it ended early"
        assert re.match(rf"{server}\d* +\| ended with code -9: {advice}$", line)
