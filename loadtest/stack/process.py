"""A local process with a log file, a readiness check, and no way to outlive the one that started it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click
import psutil

from loadtest.ports import free_port, is_occupied
from loadtest.stack import reaper

if TYPE_CHECKING:
    from typing_extensions import Self

_POLL_S = 0.02
# A process begins when the reaper knows of it. If this one is killed before, the shell's input ends, and so does it.
_WATCHED = ("/bin/sh", "-c", 'read _ && exec "$0" "$@" </dev/null')
_STILL = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
START_TIMEOUT_S = 30.0
_STOP_S = 15.0
_KILLED_S = 5.0  # at most, until the children of a killed process have let go of its port
_LEAST_FREE = 64 * 1024  # bytes, below which nothing starts: etcd alone asks for 64 MB
_FREEZE_S = 0.8  # at most, because the board waits a second for an answer


class ServerError(click.ClickException):
    """A server of the local stack could not be brought up; the message is one line that says what to do."""


class Resource:
    """Started when ``with`` is entered, and gone when it is left; of a start that fails, nothing is left either."""

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


class ManagedProcess(Resource):
    """One process, the leader of its own session; its output goes to DIRECTORY/NAME.log.

    As a context manager it is ready inside and gone afterwards. Subclasses say what to run and when it is ready.
    Port 0 means a free one.

    Attributes:
        frozen: whether `pause` stopped it.
        prints: whether its output goes to the terminal, and only errors to the log.
    """

    prints = False

    def __init__(self, name: str, directory: Path, *, port: int) -> None:
        self.name = name
        self.directory = directory
        self.port = port or free_port()
        self.log = directory / f"{name}.log"
        self.frozen = False
        self._popen: subprocess.Popen[bytes] | None = None
        self._group: int | None = None  # None again when the id may name other processes
        self._changing = threading.RLock()  # one start or kill at a time: the board has many viewers

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        return os.environ

    def is_ready(self) -> bool:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """Process id, also that of its process group."""
        assert self._popen is not None
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs or was never started, else as subprocess has it: -9 after a kill."""
        return None if self._popen is None else self._popen.poll()

    @property
    def running(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def require_running(self) -> None:
        """Raise ServerError if it does not run."""
        if not self.running:
            raise ServerError(f"{self.name} does not run: start it first")

    def start(self) -> None:
        """Launch and wait until ready, at most `START_TIMEOUT_S`; raises ServerError."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start the process without waiting for it; raises ServerError if its port is occupied."""
        with self._changing:
            if self.running:
                return
            self.kill()  # children of one that ended by itself
            require_free_ports([self])
            # In its own thread, which Ctrl-C does not interrupt: the reaper hears of every process that exists.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(self._spawn).result()

    def _spawn(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [*_WATCHED, *self.command()],
                stdin=subprocess.PIPE,
                stdout=None if self.prints else log,
                stderr=log,
                env=self.environment(),
                start_new_session=True,
            )
        self._group, self.frozen = self._popen.pid, False
        reaper.watch("group", self._group)
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._popen.stdin as go:  # broken: it was killed
            go.write(b"go\n")

    def wait_ready(self) -> None:
        """Wait until `is_ready`, at most `START_TIMEOUT_S`; raises ServerError with the `reason`."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.is_ready():
            if not self.running:
                raise ServerError(f"{self.name} ended with code {self.returncode} at the start: {self.reason()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerError(f"{self.name} was not ready within {START_TIMEOUT_S:g} s: {self.reason()}")
            time.sleep(_POLL_S)

    def reason(self) -> str:
        """Why it ended, or does not get ready: a full disk, or else the last line of its log."""
        lines = self.log.read_text(errors="replace").split("\n") if self.log.exists() else []
        is_full = shutil.disk_usage(self.directory).free < _LEAST_FREE if self.directory.exists() else False
        if is_full or any("no space left" in line.lower() for line in lines):
            return f"no space left in {self.directory}: free some, or let TMPDIR name another disk"
        return next((line.strip() for line in reversed(lines) if line.strip()), "it logged nothing")

    def terminate(self) -> None:
        """Ask it to end (SIGTERM), also if it is frozen."""
        if self._popen is not None and self.running:
            self.resume()
            self._popen.terminate()

    def stop(self) -> None:
        """Ask it to end, and kill what is left of it after 15 s; idempotent."""
        self.terminate()
        self.wait_ended()

    def wait(self) -> int:
        """Wait until it ends by itself; its return code."""
        assert self._popen is not None
        return self._popen.wait()

    def wait_ended(self) -> None:
        """Wait for 15 s, then kill what is left of it."""
        if self._popen is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(_STOP_S)
            self.kill()

    def kill(self) -> None:
        """SIGKILL to it and all its children at once; idempotent."""
        with self._changing:
            if self._popen is None or self._group is None:
                return
            self._signal_group(signal.SIGKILL)
            self._popen.wait()
            deadline = time.monotonic() + _KILLED_S
            while is_occupied(self.port) and time.monotonic() < deadline:  # its children die a moment later
                time.sleep(_POLL_S)
            reaper.forget("group", self._group)
            self._group, self.frozen = None, False

    def pause(self) -> None:
        """Freeze it and all its children (SIGSTOP), as a long garbage collection or a suspended laptop would.

        Returns when they stand still, or after 0.8 s: on a busy machine they go on for some ms after the signal.

        Raises:
            ServerError: it does not run.
        """
        self.require_running()
        self._signal_group(signal.SIGSTOP)
        self.frozen = True
        deadline = time.monotonic() + _FREEZE_S
        while self._group and not all_stand_still(self._group) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def resume(self) -> None:
        """Thaw what `pause` froze."""
        self._signal_group(signal.SIGCONT)
        self.frozen = False

    def _signal_group(self, number: signal.Signals) -> None:
        if self._group is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: PermissionError for a group of zombies
            os.killpg(self._group, number)


def all_stand_still(pid: int) -> bool:
    """Whether a process and all its children are stopped, or have ended."""
    try:
        first = psutil.Process(pid)
        return all(process.status() in _STILL for process in (first, *first.children(recursive=True)))
    except psutil.NoSuchProcess:  # if it was a child that ended just now, the others are yet to be looked at
        return not psutil.pid_exists(pid)


def require_free_ports(processes: Iterable[ManagedProcess]) -> None:
    """Raise ServerError, naming them all, if ports of these processes are in use."""
    taken = [f"port {process.port} ({process.name})" for process in processes if is_occupied(process.port)]
    if taken:
        raise ServerError(f"already in use: {', '.join(taken)}. Choose others: make up ARGS=--free-ports")


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A temporary directory that is gone afterwards, even if this process is killed."""
    with tempfile.TemporaryDirectory(prefix="stock-flash-sale-", ignore_cleanup_errors=True) as name:
        reaper.watch("directory", Path(name))  # for good: a process that is still dying may make it anew
        yield Path(name)
