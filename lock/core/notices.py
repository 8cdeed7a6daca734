"""What is to be known in time: that another one waits (`on_contended`), that the lease may end (`on_trouble`)."""

from collections.abc import Callable

from lock.core.core import Core
from lock.core.queue import Observer, Queue, Stage, Ticket

_LEFT = 0.5  # of the TTL: a renewal is due when two thirds are left, so by then some have failed
_AGAIN = 0.1  # of the TTL: how soon it is seen that this outage is over


class Notice(Observer):
    """Has the driver call `wake` when it is time."""

    def __init__(self, core: Core, wake: Callable[[], object]) -> None:
        self._core = core
        self.wake: Callable[[], object] | None = wake


class Contention(Notice):
    """Once there is a waiter behind a hold; never where that is over. Until then its queue is followed."""

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


class Trouble(Notice):
    """Once for each outage, when renewals of the lease have failed for half of its TTL."""

    _is_overdue = False

    def begin(self, now: float) -> None:
        self._core.observers[self] = None
        self._core.outbox.is_early = True

    def poll(self, now: float) -> float:
        core = self._core
        due = core.deadline - core.ttl * _LEFT
        if now < due:
            self._is_overdue = False
            return due
        if not self._is_overdue:
            self._is_overdue = True
            core.outbox.changes.append(self)
        return now + core.ttl * _AGAIN
