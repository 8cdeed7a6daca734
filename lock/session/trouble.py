"""Tells a program that the lease of its session may end, while there is time to stop cleanly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from lock.runtime.clock import now

if TYPE_CHECKING:
    from lock.session.engine import Engine

_LEFT = 0.5  # of the TTL: a renewal is due when two thirds are left, so by then some have failed
_AGAIN = 0.1  # of the TTL: how soon it is seen that this outage is over


class Trouble:
    """Callbacks for renewals that are overdue; once for each outage, by the thread for callbacks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._callbacks: list[Callable[[float], object]] = []
        self._is_told = False

    def add(self, callback: Callable[[float], object]) -> None:
        """Have it called with the seconds that are left, from now on; at once if a renewal is overdue."""
        self._callbacks.append(callback)
        if self._is_told:
            self._tell(callback)

    def look(self) -> float:
        """For the worker: tell what there is to tell; when to look again."""
        core = self._engine.core
        due = core.deadline - core.ttl * _LEFT
        if not self._callbacks or core.failure is not None:
            return math.inf
        moment = now()
        if moment < due:
            self._is_told = False
            return due
        if not self._is_told:
            self._is_told = True
            for callback in list(self._callbacks):
                self._tell(callback)
        return moment + core.ttl * _AGAIN

    def _tell(self, callback: Callable[[float], object]) -> None:
        self._engine.callbacks.send(lambda: callback(self._engine.core.remaining(now())))
