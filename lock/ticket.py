"""One place in a queue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lock.errors import LockError

logger = logging.getLogger(__name__)


class Ticket:
    """One key in a queue, from before it is written until it is deleted.

    Attributes:
        key: its name, used for one acquisition only.
        written_at: its create revision once the write is acknowledged, else None.
        token: its create revision once its turn has come, else None.
        turn: set when it has come, or when it never will (`failure`).
        lost: set when the key is gone or has to be taken for gone.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.written_at: int | None = None
        self.token: int | None = None
        self.turn = threading.Event()
        self.lost = threading.Event()
        self.failure: LockError | None = None
        self._listeners: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def grant(self, token: int) -> None:
        """Its turn has come."""
        self.token = token
        self.turn.set()

    def fail(self, failure: LockError) -> None:
        """It is lost, or cancelled; the first reason stands."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = failure
            listeners, self._listeners = self._listeners, []
        self.lost.set()
        self.turn.set()
        for listener in listeners:
            _notify(listener)

    def on_lost(self, listener: Callable[[], object]) -> None:
        """Call `listener` once when it is lost; at once if it is already."""
        with self._lock:
            if self.failure is None:
                self._listeners.append(listener)
                return
        _notify(listener)


def _notify(listener: Callable[[], object]) -> None:
    try:
        listener()
    except Exception:
        logger.exception("a listener for a lost lock failed")
