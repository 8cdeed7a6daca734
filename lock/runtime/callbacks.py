"""Calls of users' callbacks, in a thread that begins when the first one is registered.

Error handling: whatever a callback raises, SystemExit too, is logged, and the next one is called.
"""

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial

from lock.runtime.interrupts import InterruptSafeEvent

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


class CallbackThread:
    """Calls one callback after the other, until `close`."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ending: threading.Thread | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Have its thread run unless it is closed, so that a loss finds it; RuntimeError if none can be started."""
        with self._lock:
            if not self._is_closed:
                self._run()

    def call_when(self, add: Callable[[Callable[[], object]], bool], callback: Callable[[], object]) -> None:
        """Have `callback` called once the listener is that this adds; at once and from here if it adds none."""
        check_callback(callback)
        self.start()
        if not add(partial(self.send, callback)):
            call(callback)

    def send(self, callback: Callable[[], object]) -> None:
        """Have `callback` called, after those that were sent before; returns at once."""
        self._calls.put(callback)
        with self._lock:
            if self._is_closed:
                self._calls.put(None)
            try:
                self._run()
            except RuntimeError:  # a machine that is out of threads
                logger.exception("callbacks are called when the next one is sent")

    def finish(self) -> None:
        """End after the last call; does not wait."""
        with self._lock:
            self._is_closed = True
            if self._thread is not None:
                self._calls.put(None)
                self._ending, self._thread = self._thread, None

    def close(self, timeout: float) -> None:
        """End after the last call; wait for that, for `timeout` seconds at most."""
        self.finish()
        if self._ending is not None and threading.current_thread() is not self._ending:
            self._ending.join(timeout)

    def _run(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="lock-callbacks", daemon=True)
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        for callback in iter(self._calls.get, None):
            call(callback, BaseException)  # SystemExit would end this thread: no later callback would ever run


def call(callback: Callable[[], object], logged: type[BaseException] = Exception) -> None:
    """Call what a user wrote, and log what it raises of this type."""
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
