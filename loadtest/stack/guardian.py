"""A guardian process that cleans up when this process ends in whatever way, kill -9 included.

It holds the reading end of a pipe whose only writing end is here. When the pipe closes, the guardian kills every
process group it was told of, frozen ones too, and removes every directory it was told of. Unlike Linux's parent death
signal, this also works on macOS, for grandchildren, and when the thread that started a process has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

_REMOVE_TIMEOUT_S = 5.0
_FAREWELL_S = 1.0
_lock = threading.Lock()
_guardians: dict[int, _Guardian] = {}  # by process id: a forked child needs its own


def watch(kind: str, target: int | str | Path) -> None:
    """Clean `target` up when this process ends: kind "group" (a process group id), "directory", "project" (Compose)."""
    _tell("watch", kind, target)


def forget(kind: str, target: int | str | Path) -> None:
    """Take `target` back from the guardian: it is gone already."""
    _tell("forget", kind, target)


def _tell(order: str, kind: str, target: int | str | Path) -> None:
    with _lock:
        if os.getpid() not in _guardians:
            _guardians[os.getpid()] = _Guardian()
        _guardians[os.getpid()].tell(order, f"{kind} {target}")


@atexit.register
def _dismiss() -> None:
    if guardian := _guardians.pop(os.getpid(), None):
        guardian.dismiss()


class _Guardian:
    """The guardian of this process, with a copy of its list, from which a killed guardian is replaced."""

    def __init__(self) -> None:
        self._watched: set[str] = set()
        self._process = _spawn()

    def tell(self, order: str, entry: str) -> None:
        """Watch or forget an entry."""
        (self._watched.add if order == "watch" else self._watched.discard)(entry)
        try:
            self._write(f"{order} {entry}\n")
        except BrokenPipeError:
            self._process.wait()
            self._process = _spawn()
            self._write("".join(f"watch {each}\n" for each in self._watched))

    def _write(self, lines: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(lines.encode())

    def dismiss(self) -> None:
        """At a regular end: close the pipe, and wait until the guardian has cleaned up."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a forked child holds the pipe, too
            self._process.wait(_FAREWELL_S)


def _spawn() -> subprocess.Popen[bytes]:
    # Its own session: Ctrl-C and the closing of the terminal do not reach it.
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> None:
    """Keep book until the pipe closes, then clean up what is left in it."""
    watched: set[tuple[str, str]] = set()
    for line in sys.stdin:
        order, kind, target = line.rstrip("\n").split(" ", 2)
        (watched.add if order == "watch" else watched.discard)((kind, target))
    for kind, target in watched:
        if kind == "group":
            # PermissionError: macOS refuses to signal a group of which only zombies are left.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(target), signal.SIGKILL)
        elif kind == "project":
            remove_project(target)
    _remove([Path(target) for kind, target in watched if kind == "directory"])


def remove_project(name: str) -> None:
    """Remove all that a Compose project has: containers, also those that are frozen, networks and volumes."""
    label = f"label=com.docker.compose.project={name}"
    with contextlib.suppress(OSError):  # no docker: no project
        found = subprocess.run(["docker", "ps", "--all", "--quiet", "--filter", label], capture_output=True, text=True)
        if containers := found.stdout.split():
            subprocess.run(["docker", "rm", "--force", "--volumes", *containers], capture_output=True)
        subprocess.run(["docker", "compose", "--project-name", name, "down", "--volumes"], capture_output=True)


def _remove(directories: list[Path]) -> None:
    """Remove them, again and again while a dying process may still write there."""
    deadline = time.monotonic() + _REMOVE_TIMEOUT_S
    while any(directory.exists() for directory in directories) and time.monotonic() < deadline:
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
