"""`up`: the stack in the foreground, which says where everything is and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from loadtest.stack.ports import is_occupied
from loadtest.stack.servers import Redis
from loadtest.target.shops import in_progress
from tests.support.leftovers import assert_gone, directories_of
from tests.support.waiting import wait_until

UP = [sys.executable, "-m", "loadtest", "up"]


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_up_leaves_nothing_behind(number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end `up` with code 0 when every server had time to end; after kill -9 all is gone as well."""
    with running_up() as (up, children, printed):
        directories = directories_of(children)
        up.send_signal(number)
        rest, _ = up.communicate(timeout=30)
    if number != signal.SIGKILL:
        assert up.returncode == 0, rest
        assert "Shutting down: Master" in rest
    assert_gone(children, directories)
    # Log lines carry the name of their process, without colour codes, as the output is not a terminal.
    assert re.search(r"^etcd +\| ready on port \d+$", printed, re.MULTILINE)
    assert re.search(r"^(instance-\d+) +\| .*Listening at", printed, re.MULTILINE)
    assert "\x1b" not in printed


def think(url: str) -> None:
    """Buy one item, and think about it for a minute."""
    with suppress(OSError):
        urllib.request.urlopen(urllib.request.Request(f"{url}/stock/reduce?hold_ms=60000", method="POST"))


def test_a_second_interrupt_kills() -> None:
    """Nobody waits for the shops, which would finish their purchases for some seconds, and nothing is left."""
    with running_up() as (up, children, printed):
        directories = directories_of(children)
        busy, idle = re.findall(r"http://127.0.0.1:\d+", printed.partition("Shops: ")[2])[:2]
        threading.Thread(target=think, args=(busy,), daemon=True).start()
        wait_until(lambda: in_progress(busy))
        up.send_signal(signal.SIGINT)
        wait_until(lambda: not is_occupied(int(idle.rpartition(":")[2])))  # so the other one is being waited for
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=5)
        assert up.returncode == 130
    assert_gone(children, directories)


def test_up_names_an_occupied_port(redis_server: Redis) -> None:
    """One line says which port is occupied, and how to choose others; nothing was started."""
    offset = redis_server.port - 6379
    answer = subprocess.run([*UP, f"--port-offset={offset}"], capture_output=True, text=True, timeout=100)
    assert answer.returncode == 1
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert f"already in use: port {redis_server.port} (redis)" in line
    assert line.endswith('Choose others: make up ARGS=--free-ports, or make up ARGS="--port-offset 1000"')


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
