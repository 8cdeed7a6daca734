"""Asks one question repeatedly in its own thread, so that nothing else waits for the answer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Latest(Generic[T]):
    """The last answer; or an `error` that says why there is none now."""

    value: T | None = None
    error: str | None = None


class Poller(threading.Thread, Generic[T]):
    """Asks every `every_s` seconds, and keeps the `latest` answer.

    Args:
        name: of the thread.
        ask: has its own deadline.
        errors: those that mean "no answer"; every other one is a defect, which is logged.
        every_s: seconds from one question to the next.
    """

    def __init__(self, name: str, ask: Callable[[], T], *, errors: tuple[type[Exception], ...], every_s: float) -> None:
        super().__init__(name=name, daemon=True)
        self._ask = ask
        self._errors = errors
        self.every_s = every_s
        self._closed = threading.Event()
        self.latest: Latest[T] = Latest()  # nothing is known before the first answer

    def run(self) -> None:
        while not self._closed.is_set():
            began = time.monotonic()
            try:
                self.latest = Latest(self._ask())
            except self._errors as error:
                self.latest = Latest(error=str(error) or type(error).__name__)
            except Exception:
                logger.exception("%s failed", self.name)
                self.latest = Latest(error="the board failed to read it: its log says more")
            self._closed.wait(max(0.0, began + self.every_s - time.monotonic()))

    def close(self) -> None:
        """Ask no more; the thread ends after the current question."""
        self._closed.set()
