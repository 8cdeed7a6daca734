"""Tells a holder that another one waits (`on_contended`)."""

from collections.abc import Callable

from lock.core.core import Core
from lock.core.queue import Observer, Queue, Stage, Ticket


class Contention(Observer):
    """Has the driver call `wake` once there is a waiter behind a hold; never where that is over.

    Until then its queue is followed.
    """

    def __init__(self, core: Core, wake: Callable[[], object]) -> None:
        self._core = core
        self.wake: Callable[[], object] | None = wake

    def begin(self, ticket: Ticket, now: float) -> None:
        self._ticket = ticket
        ticket.queue.observers[self] = None
        self.look(ticket.queue, now)

    def look(self, queue: Queue, now: float) -> None:
        is_contended = self._core.contended(self._ticket, now)
        if is_contended:
            self._core.outbox.changes.append(self)
        if is_contended or self._ticket.stage is not Stage.HELD:
            queue.observers.pop(self, None)
