"""Tells the holder of a lock that others wait for it, so that a long holder can give way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lock.core.queue import Stage, Ticket
from lock.runtime.clock import now

if TYPE_CHECKING:
    from lock.session.engine import Engine


class Contention:
    """Listeners of holds, each called once. The queues of their holds are followed as long as they wait.

    Attributes:
        listeners: those that wait; while there is none, there is nothing to look at.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.listeners: list[tuple[Ticket, Callable[[], object]]] = []

    def add(self, ticket: Ticket, listener: Callable[[], object]) -> None:
        """Call a listener, which is quick and does not raise, once there is a waiter; never where the hold is over."""
        with self._engine.lock:
            self.listeners.append((ticket, listener))

    def look(self) -> None:
        """Call those whose time has come; to be called after each change, and now and then."""
        with self._engine.lock:
            held = [each for each in self.listeners if each[0].stage is Stage.HELD and each[0].failure is None]
            due = [each for each in held if self._engine.core.contended(each[0], now())]
            self.listeners = [each for each in held if each not in due]
        for _, listener in due:
            listener()
