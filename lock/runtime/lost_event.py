"""That something is lost: once, for good, and each listener is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from lock.errors import LockError
from lock.runtime.callbacks import CallbackThread, call
from lock.runtime.interrupts import run_uninterrupted


class LostEvent:
    """Whether something is lost, and why. Thread-safe.

    Args:
        callbacks: calls the users' callbacks.

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

    def fail(self, failure: LockError) -> bool:
        """It is lost; whether this was the first reason."""
        return run_uninterrupted(partial(self._fail, failure))

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Have a user's `callback` called once when it is lost; at once and from here if it is already.

        Raises:
            TypeError: `callback` cannot be called.
        """
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

    def _fail(self, failure: LockError) -> bool:
        with self._lock:
            first = self._record(failure)
        if first:
            self._tell()
        return first

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
