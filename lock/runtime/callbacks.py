"""Calls what users asked to be called: from one thread, so that nothing of the lock's own waits for it.

Error handling: whatever a callback raises, SystemExit too, is logged, and the next one is called.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class CallbackThread:
    """Makes calls one after the other, in a thread that begins with `start` and ends with `close`."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="lock-callbacks", daemon=True)

    def start(self) -> None:
        """Begin with the calls."""
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
