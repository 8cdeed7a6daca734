"""Tells a holder that another one waits (`on_contended`)."""

from collections.abc import Callable

from lock.core.core import Core
from lock.core.queue import Observer, Queue, Stage, Ticket
from lock.errors import LockError


class Contention(Observer):
    """Has `wake` called once there is a waiter; never where the hold is over. Until then its queue is followed."""

    failure: LockError | None = None

    def __init__(self, core: Core, ticket: Ticket, wake: Callable[[], object]) -> None:
        self._core = core
        self._ticket = ticket
        self.wake: Callable[[], object] | None = wake

    def begin(self, now: float) -> None:
        """Stage: HELD; else nothing is done."""
        self._ticket.queue.observers[self] = None
        self.look(self._ticket.queue, now)

    def look(self, queue: Queue, now: float) -> None:
        is_contended = self._core.contended(self._ticket, now)
        if is_contended:
            self._core.changes.append(self)
        if is_contended or self._ticket.stage is not Stage.HELD:
            queue.observers.pop(self, None)
