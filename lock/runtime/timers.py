"""Calls at given times, from one thread, however many there are."""

from __future__ import annotations

import contextlib
import sched
import threading
from collections.abc import Callable

from lock.runtime.clock import now
from lock.runtime.interrupts import shielded

_JOIN_S = 1.0
_SLEEP_S = 60.0  # no wait can be as long as an alarm may be away: math.inf, say


class Alarms:
    """A thread that sleeps until the next alarm; it starts with the first one. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self._scheduler = sched.scheduler(now, self._sleep)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    def set(self, when: float, action: Callable[[], object]) -> sched.Event:
        """Have `action` called at `when`, a time of `lock.runtime.clock`; it has to be quick and must not raise."""
        alarm = self._scheduler.enterabs(when, 0, action)
        shielded(self._wake)
        return alarm

    def cancel(self, alarm: sched.Event) -> None:
        """Take an alarm back; fine where it has gone off."""
        with contextlib.suppress(ValueError):
            self._scheduler.cancel(alarm)

    def close(self) -> None:
        """No alarm goes off any more."""
        with self._lock:
            self._closed = True
        for alarm in self._scheduler.queue:
            self.cancel(alarm)
        self._changed.set()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)

    def _wake(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="lock-alarms", daemon=True)
                self._thread.start()
        self._changed.set()

    def _run(self) -> None:
        while not self._closed:
            self._scheduler.run()
            if not self._closed:
                self._sleep(None)

    def _sleep(self, seconds: float | None) -> None:
        """Until `seconds` are over or the alarms have changed; whoever calls this looks at them again."""
        self._changed.wait(None if seconds is None else min(seconds, _SLEEP_S))
        self._changed.clear()
