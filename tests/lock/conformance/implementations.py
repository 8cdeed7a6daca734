"""What the conformance suite is run against: two commands, each of which queues for a lock in its own process.

Both take their endpoints from ETCDCTL_ENDPOINTS, print a line once they hold (or run a command that prints one), and
release at SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from loadtest.stack import programs
from tests.support.lock import WAIT_S

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Implementation:
    name: str

    def command(self, lock: str, *child: str, ttl: int = 10, timeout: float | None = None) -> list[str]:
        """Hold `lock`, or run `child` while it is held; wait for `timeout` seconds, as far as it can be told to."""
        program = [str(programs.etcdctl()), "lock"] if self.name == "etcdctl" else [sys.executable, "-m", "lock"]
        patience = f"--command-timeout={timeout}s" if self.name == "etcdctl" else f"--timeout={timeout}"
        given = [f"--ttl={ttl}", *([] if timeout is None else [patience])]
        return [*program, *given, lock, *(["--", *child] if child else [])]


OURS = Implementation("python -m lock")
ETCDCTL = Implementation("etcdctl")


class Contender:
    """A process that holds a lock, waits for it, or has given up; killed at the end, with its child."""

    def __init__(self, command: list[str], endpoints: str) -> None:
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "ETCDCTL_ENDPOINTS": endpoints},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._spoke = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def holds(self, *, within: float = WAIT_S) -> bool:
        """Whether it holds the lock or has held it; waits for that, at most `within` seconds."""
        self._spoke.wait(within)
        return bool(self._lines)

    @property
    def said(self) -> str:
        """The first line that it, or its child, printed: the key, where it has no child."""
        return self._lines[0]

    def has_ended(self, *, within: float) -> bool:
        """Whether it is over; waits for that, at most `within` seconds."""
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def ends(self) -> tuple[int, str]:
        assert self.has_ended(within=WAIT_S)
        assert self._process.stderr is not None
        return self._process.returncode, self._process.stderr.read()

    def signal(self, number: int) -> None:
        """Send it a signal, and its child none."""
        self._process.send_signal(number)

    def release(self) -> None:
        """Have it release the lock and end."""
        self.signal(signal.SIGTERM)
        assert self.has_ended(within=WAIT_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def children(self) -> list[psutil.Process]:
        """The processes that it has started, and those that they have; none once it has ended."""
        try:
            children: list[psutil.Process] = psutil.Process(self._process.pid).children(recursive=True)
            return children
        except psutil.NoSuchProcess:
            return []

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))
            self._spoke.set()
        self._spoke.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for child in self.children():
            with contextlib.suppress(psutil.NoSuchProcess):  # it ends with the guardian, which may be killed first
                child.kill()
        self.kill()
        self._reader.join(WAIT_S)
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
