"""That something is lost: once, for good, and each listener is told.

Error handling: whatever a user's callback raises, SystemExit too, is logged, and the next one is called.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial

from lock.errors import LockError
from lock.runtime.interrupts import uninterrupted

logger = logging.getLogger(__name__)


class CallbackThread:
    """Calls the users' callbacks one after the other, in a thread that begins with `start` and ends with `close`."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="lock-callbacks", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def send(self, callback: Callable[[], object]) -> None:
        """Have `callback` called, after those that were sent before; returns at once."""
        self._calls.put(callback)

    def close(self, timeout: float) -> None:
        """End after the last call; wait for that, for `timeout` seconds at most."""
        self._calls.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _work(self) -> None:
        for callback in iter(self._calls.get, None):
            call(callback, BaseException)  # SystemExit would end this thread: no later callback would ever run


def call(callback: Callable[[], object], logged: type[BaseException] = Exception) -> None:
    """Call what a user wrote, and log what it raises of this type."""
    try:
        callback()
    except logged:
        logger.exception("a callback for a loss failed")


class LostEvent:
    """Whether something is lost, and why; `callbacks` calls the users' callbacks. Thread-safe.

    Attributes:
        lost: set when it is lost.
        failure: why, else None; the first reason stands.
    """

    def __init__(self, callbacks: CallbackThread) -> None:
        self.lost = threading.Event()
        self.failure: LockError | None = None
        self._listeners: list[Callable[[], object]] = []
        self._callbacks = callbacks
        self._lock = threading.Lock()

    @uninterrupted
    def fail(self, failure: LockError) -> bool:
        """It is lost; whether this was the first reason."""
        with self._lock:
            first = self._record(failure)
        if first:
            self._tell()
        return first

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Have a user's `callback` called once when it is lost; at once and from here if it is already."""
        if not callable(callback):
            raise TypeError(f"on_lost takes a function without arguments, such as event.set; got {callback!r}")
        if not self._listen(partial(self._callbacks.send, callback)):
            call(callback)

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call `listener`, which is quick and does not raise, the moment it is lost; once, if given twice."""
        if not self._listen(listener):
            listener()

    def again(self) -> LockError | None:
        """The reason as a new exception, for each thread that raises it; None if it is not lost."""
        return None if self.failure is None else type(self.failure)(str(self.failure))

    def check(self) -> None:
        """Raise the reason if it is lost."""
        failure = self.again()
        if failure is not None:
            raise failure

    def _record(self, failure: LockError) -> bool:
        """With the lock held."""
        if self.failure is not None:
            return False
        self.failure = failure
        return True

    def _tell(self) -> None:
        self.lost.set()
        with self._lock:
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def _listen(self, listener: Callable[[], object]) -> bool:
        """Whether it is not lost yet."""
        with self._lock:
            if self.failure is not None:
                return False
            if listener not in self._listeners:
                self._listeners.append(listener)
            return True
