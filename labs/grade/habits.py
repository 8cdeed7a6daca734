"""What a guard does behind the grader's back: threads, processes, connections and event loops of its own.

Python tells of them by audit events (PEP 578), but of threads not before 3.12. They are the guard's if its file called
for them, without the shop or its lock between. A guard that wants to hide them can.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

OF_THE_SHOP = tuple(f"{Path(__file__).parents[2] / name}{os.sep}" for name in ("app", "lock"))
EVENTS = {
    "threading.Thread.start": "starts a thread",  # an event of ours
    "socket.__new__": "opens a connection or an event loop of its own",
    "subprocess.Popen": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.fork": "starts a process",
    "os.system": "starts a process",
}


class Habits:
    """Listens from now on to what the guard in this file does."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.found: list[str] = []  # a sentence for each that was seen
        sys.addaudithook(self._hear)
        threading.Thread.start = self._told_of(threading.Thread.start)  # type: ignore[assignment, method-assign]

    def _told_of(self, start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
        def started(thread: threading.Thread) -> None:
            self._hear("threading.Thread.start", ())
            start(thread)

        return started

    def _hear(self, event: str, _: tuple[Any, ...]) -> None:
        if event in EVENTS and (line := self._line(sys._getframe(1))):
            self.found.append(f"Line {line} {EVENTS[event]}, which a guard must not.")

    def _line(self, frame: FrameType | None) -> int | None:
        """The line of the guard's file that called for it; `None` if it did not."""
        while frame is not None and not frame.f_code.co_filename.startswith(OF_THE_SHOP):
            if frame.f_code.co_filename == self._path:
                return frame.f_lineno
            frame = frame.f_back
        return None
