"""A reaper process that cleans up when this process ends in whatever way, kill -9 included.

It holds the reading end of a pipe whose only writing end is here. When the pipe closes, the reaper kills every
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
from functools import cache
from pathlib import Path
from typing import IO

_REMOVE_TIMEOUT_S = 5.0
_FAREWELL_S = 1.0
_lock = threading.Lock()


def watch(kind: str, target: int | str | Path) -> None:
    """Clean `target` up when this process ends: kind "group" (a process group id) or "directory"."""
    _tell("watch", kind, target)


def forget(kind: str, target: int | str | Path) -> None:
    """Take `target` back from the reaper: it is gone already."""
    _tell("forget", kind, target)


def _tell(command: str, kind: str, target: int | str | Path) -> None:
    with _lock, contextlib.suppress(BrokenPipeError):  # if the reaper was killed, nothing guards any more
        _pipe().write(f"{command} {kind} {target}\n".encode())


@cache
def _pipe() -> IO[bytes]:
    """Start the reaper; where it listens."""
    reaper = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C and the closing of the terminal do not reach it
    )
    assert reaper.stdin is not None
    atexit.register(_dismiss, reaper, reaper.stdin)
    return reaper.stdin


os.register_at_fork(after_in_child=_pipe.cache_clear)  # what a child watches ends with the child


def _dismiss(reaper: subprocess.Popen[bytes], pipe: IO[bytes]) -> None:
    """At a regular end: close the pipe, and wait until the reaper has cleaned up."""
    pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        reaper.wait(_FAREWELL_S)


def main() -> None:
    """Keep book until the pipe closes, then clean up what is left in it."""
    watched: set[tuple[str, str]] = set()
    for line in sys.stdin:
        command, kind, target = line.rstrip("\n").split(" ", 2)
        (watched.add if command == "watch" else watched.discard)((kind, target))
    for kind, target in watched:
        if kind == "group":
            # PermissionError: macOS refuses to signal a group of which only zombies are left.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(int(target), signal.SIGKILL)
    _remove([Path(target) for kind, target in watched if kind == "directory"])


def _remove(directories: list[Path]) -> None:
    """Remove them, again and again while a dying process may still write there."""
    deadline = time.monotonic() + _REMOVE_TIMEOUT_S
    while any(directory.exists() for directory in directories) and time.monotonic() < deadline:
        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
