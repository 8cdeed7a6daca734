"""Asking one thing again and again, in a thread of its own, so that nobody waits for whoever does not answer."""

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
class Told(Generic[T]):
    """The last answer; or, with `away`, why there is none now."""

    value: T | None = None
    away: str | None = None


class Probe(threading.Thread, Generic[T]):
    """Asks every `every_s` seconds.

    Args:
        name: of the thread.
        ask: must end within its own deadline.
        away: errors that mean that nobody answered; every other one is a defect, which is logged.
        every_s: seconds from one question to the next.

    Attributes:
        told: the last answer.
    """

    def __init__(self, name: str, ask: Callable[[], T], *, away: tuple[type[Exception], ...], every_s: float) -> None:
        super().__init__(name=name, daemon=True)
        self._ask = ask
        self._away = away
        self._every_s = every_s
        self._closed = threading.Event()
        self.told: Told[T] = Told()  # nothing is known before the first answer

    def run(self) -> None:
        while not self._closed.is_set():
            began = time.monotonic()
            self.told = self._answer()
            self._closed.wait(max(0.0, began + self._every_s - time.monotonic()))

    def _answer(self) -> Told[T]:
        try:
            return Told(self._ask())
        except self._away as error:
            return Told(away=str(error) or type(error).__name__)
        except Exception:
            logger.exception("%s failed", self.name)
            return Told(away="the board failed to read it: its log says more")

    def close(self) -> None:
        """Ask no more; the thread ends with the question that it has asked."""
        self._closed.set()
