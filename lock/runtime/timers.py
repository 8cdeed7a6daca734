"""Calls at given times, from one thread, however many there are."""

from __future__ import annotations

import contextlib
import sched
import threading
from collections.abc import Callable

from lock.runtime.clock import now
from lock.runtime.interrupts import uninterrupted

_JOIN_S = 1.0
_SLEEP_S = 60.0  # no wait can be as long as a timer may be away: math.inf, say


class Timers:
    """A thread that sleeps until the next timer; it starts with the first one. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self._scheduler = sched.scheduler(now, self._sleep)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    @uninterrupted
    def set(self, when: float, action: Callable[[], object]) -> sched.Event:
        """Have `action` called at `when`, a time of `lock.runtime.clock`; it has to be quick and must not raise."""
        timer = self._scheduler.enterabs(when, 0, action)
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="lock-timers", daemon=True)
                self._thread.start()
        self._changed.set()
        return timer

    @uninterrupted  # halfway the scheduler's heap is out of order
    def cancel(self, timer: sched.Event) -> None:
        """Take a timer back; fine where it has gone off."""
        with contextlib.suppress(ValueError):
            self._scheduler.cancel(timer)

    def close(self) -> None:
        """No timer goes off any more."""
        with self._lock:
            self._closed = True
        for timer in self._scheduler.queue:
            self.cancel(timer)
        self._changed.set()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._closed:
            self._scheduler.run()
            if not self._closed:
                self._sleep(None)

    def _sleep(self, seconds: float | None) -> None:
        """Until `seconds` are over or the timers have changed; the caller looks at them again."""
        self._changed.wait(None if seconds is None else min(seconds, _SLEEP_S))
        self._changed.clear()
