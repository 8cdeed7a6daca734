"""The deletions that no thread waits to send: they go in groups.

While one group is under way the next keys gather, and go in the next one (group commit). The key of a hold whose
successor is a ticket of this session blocks no other process, and waits a moment for others (as PostgreSQL's
``commit_delay`` lets commits wait).

A ticket's entry goes when a deletion was answered that was sent after the last write of its key was. Without the
comparison of the create revision, a late repetition of an old release could free a newer hold (etcd issue 22082); a key
in doubt is deleted whatever its revision, for its name is never used again.
"""

import logging
import math
from collections.abc import Callable, Iterable

from lock.core.messages import MOST, Delete, Deleted, Outbox
from lock.core.queue import Stage, Ticket, pause
from lock.core.revisions import Revisions
from lock.errors import EtcdError, EtcdUnavailable

logger = logging.getLogger(__name__)

_COMPANY_S = 0.005

Key = tuple[str, int | None]


class Deletions:
    """What is to be deleted, by key and create revision."""

    gone: Callable[..., object]  # as `Endings.gone`

    def __init__(self, outbox: Outbox, revisions: Revisions) -> None:
        self._outbox = outbox
        self._revisions = revisions
        self._waiting: dict[Key, Ticket | None] = {}
        self._due = math.inf
        self._sent: Delete | None = None
        self._failures = 0
        self._group = MOST
        self.is_reported = False  # that keys are deleted later than they should be, in this outage

    def add(self, ticket: Ticket, now: float, *, may_wait: bool = False) -> None:
        """Have the ticket's key deleted, if it was or may have been written; `may_wait`: in company."""
        if ticket.created is None and not ticket.in_doubt:
            self.gone(ticket, was_there=True)
            return
        self.gather((ticket.key, ticket.created), ticket, now + _COMPANY_S if may_wait else now)

    def take(self, tickets: Iterable[Ticket]) -> Delete:
        """The deletion of these keys, with those that gather, to be sent now; what is too much for one goes next."""
        mine: dict[Key, Ticket | None] = {(ticket.key, ticket.created): ticket for ticket in tickets}
        self._waiting = mine | self._waiting | mine
        return self._take()

    def poll(self, now: float) -> float:
        """Order the next group if it is due; when to look again."""
        if self._sent is not None or not self._waiting:
            return math.inf
        if now < self._due:
            return self._due
        self._sent = self._take()
        self._outbox.commands.append(self._sent)
        return math.inf

    def answered(self, request: Delete, answer: Deleted, now: float) -> None:
        self._revisions.observe(answer.revision, request.known, now)
        self._failures, self.is_reported = 0, False
        self._returned(request)
        for ticket, was_there in zip(request.tickets, answer.there, strict=True):
            if ticket is not None:
                is_released = was_there or ticket.deletion_in_doubt
                if ticket.is_unattended and not is_released:
                    logger.warning("key %s was gone before it was released: the lock was lost unnoticed", ticket.key)
                self.gone(ticket, was_there=is_released)
        if self._waiting:
            self._due = min(self._due, now)
            self._outbox.is_early = True

    def failed(self, request: Delete, error: EtcdError, now: float) -> None:
        """They are tried again, one by one where etcd refuses them together."""
        self._returned(request)
        if isinstance(error, EtcdUnavailable) or len(request.keys) == 1:
            names = ", ".join(key for key, _ in request.keys[:3])
            logger.info("still to be deleted: %d keys (%s ...): %s", len(request.keys), names, error)
            self._failures += 1
            self._due = now + pause(self._failures)
        else:
            self._group, self._due = 1, now
        for key, ticket in zip(request.keys, request.tickets, strict=True):
            if ticket is None:
                continue  # a stray is found again
            if ticket.stage is Stage.RELEASING:
                self._waiting[key] = ticket
        self._outbox.is_early = True

    def unanswered(self, request: Delete) -> None:
        """One of the endpoints that were asked did not answer: it may have deleted the keys, or may do it yet."""
        for ticket in request.tickets:
            if ticket is not None:
                ticket.deletion_in_doubt = True

    def gather(self, key: Key, ticket: Ticket | None, due: float) -> None:
        """Have a key deleted, that of a ticket or of none, then at the latest, or when the group under way is over."""
        is_first = not self._waiting
        self._waiting[key] = ticket
        if is_first or due < self._due:
            self._due = due
            self._outbox.is_early |= self._sent is None

    def _take(self) -> Delete:
        keys = tuple(self._waiting)[: self._group]
        tickets = tuple(map(self._waiting.pop, keys))
        return Delete(keys, tickets, self._revisions.highest)

    def _returned(self, request: Delete) -> None:
        if self._sent is request:
            self._sent = None
