"""The library's clock, moved by a test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lock.runtime import clock
from lock.runtime.clock import CLOCK, check_number

_now: Any = clock.now  # one object, which every module has imported
_moved: dict[Clock, float] = {}


class Clock:
    """Time runs as it does, and `advance` moves it on: for the whole process, until its `MemoryEtcd` is closed."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look  # to do what is due

    def advance(self, seconds: float) -> None:
        """Move it, as if the process had been paused for so long; returns when each session knows what has ended.

        Leases that have not ended are renewed, unless etcd is silent.
        """
        check_number(seconds, lambda each: 0 <= each < float("inf"), "advance takes seconds, 0 or more")
        _moved[self] = _moved.get(self, 0.0) + seconds
        _set()
        self._look()

    def _put_back(self) -> None:
        _moved.pop(self, None)
        _set()


def _set() -> None:
    """Exchange the function of the partial, so that a program pays nothing for a clock that it does not move."""
    seconds = sum(_moved.values())
    read = (lambda of: time.clock_gettime(of) + seconds) if _moved else time.clock_gettime
    _now.__setstate__((read, (CLOCK,), {}, None))
