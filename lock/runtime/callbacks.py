"""Calls of users' callbacks, one after the other.

Error handling: whatever a callback raises, SystemExit too, is logged, and the next one is called.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import get_ident

from lock.runtime.interrupts import InterruptSafeEvent, start_apart

logger = logging.getLogger(__name__)


class Loss:
    """What is lost, as an event, and listeners: each is called once, is quick and does not raise."""

    def __init__(self) -> None:
        self.event = InterruptSafeEvent()
        self._listeners: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def add(self, listener: Callable[[], object]) -> bool:
        """Have a listener called; False if it is lost already."""
        with self._lock:
            if not self.event.is_set():
                self._listeners.append(listener)
                return True
        return False

    def notify(self) -> None:
        with self._lock:
            listeners, self._listeners = self._listeners, []
            self.event.set()
        for listener in listeners:
            listener()


class Callbacks:
    """Calls one callback after the other, in another thread than that which has sent it."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], object]] = deque()
        self._is_calling = False
        self._thread: int | None = None  # that calls
        self._lock = threading.Lock()

    def call_when(self, add: Callable[[Callable[[], object]], bool], callback: Callable[[], object]) -> None:
        """Have `callback` called once the listener is that this adds; at once and from here if it adds none."""
        check_callback(callback)
        if not add(partial(self.send, callback)):
            _call(callback, Exception)

    def send(self, callback: Callable[[], object]) -> None:
        """Have `callback` called, after those that were sent before; returns at once."""
        with self._lock:
            self._calls.append(callback)
            is_first, self._is_calling = not self._is_calling, True
        if is_first:
            start_apart(self._call_all)

    def finish(self, timeout: float) -> None:
        """Wait until those that were sent are called, for `timeout` seconds at most; not for the one that asks so."""
        if self._is_calling and get_ident() != self._thread:
            called = InterruptSafeEvent()
            self.send(called.set)
            called.wait(timeout)

    def _call_all(self) -> None:
        self._thread = get_ident()
        while True:
            with self._lock:
                if not self._calls:
                    self._thread, self._is_calling = None, False
                    return
                callback = self._calls.popleft()
            _call(callback, BaseException)  # SystemExit would end this thread: no later callback would ever run


def _call(callback: Callable[[], object], logged: type[BaseException]) -> None:
    try:
        callback()
    except logged:
        logger.exception("a callback failed")


def check_callback(
    callback: object, rule: str = "on_lost takes a function without arguments, such as event.set"
) -> None:
    """Refuse what cannot be called, with a TypeError that says the rule."""
    if not callable(callback):
        raise TypeError(f"{rule}; got {callback!r}")
