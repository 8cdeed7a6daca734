"""The way from holds to nothing, step by step: which deletions to send, and what to wait for.

A driver does its steps as those of an `Acquisition`.
"""

import logging
from collections.abc import Callable, Sequence

from lock.core.acquisition import FAREWELL_S, Send, Sleep
from lock.core.core import Core
from lock.core.queue import Stage, Ticket
from lock.errors import EtcdUnavailable, LockError, LockLost

logger = logging.getLogger(__name__)


class Release:
    """The end of one hold, or of several in one step; it raises the first reason why one of them was lost.

    It is over when the keys are deleted, and at `until` at the latest; where it does not wait (`waits`), at once.
    """

    def __init__(
        self, core: Core, tickets: Sequence[Ticket], until: float, *, waits: bool, is_closed: Callable[[], bool]
    ) -> None:
        self._core = core
        self._tickets = tickets
        self._until = until
        self._waits = waits
        self._is_closed = is_closed  # whether no deletion will ever be answered
        self._failures: list[LockError] = []
        self._is_begun = False
        self.answered = core.deletions.answered
        self.failed = core.deletions.failed
        self.unanswered = core.deletions.unanswered

    def wake_by(self, wake: Callable[[], object] | None) -> None:
        """Have this called, without any lock, when it may go on."""
        for ticket in self._tickets:
            ticket.wake = wake

    def next(self, now: float) -> Send | Sleep | None:
        """What to do now; None once it is over. Raises why a hold was lost."""
        if not self._is_begun:
            self._is_begun = True
            self._tickets = self._begin(now)
            if self._tickets:
                return Send(self._core.deletions.take(self._tickets), max(self._until - now, FAREWELL_S))
        wrong = [ticket for ticket in self._tickets if ticket.stage is not Stage.RELEASED or not ticket.was_there]
        if wrong and now < self._until and not self._is_closed() and any(t.stage is not Stage.RELEASED for t in wrong):
            return Sleep(self._until)
        for ticket in wrong:
            self._judge(ticket)
        self._core.ensure(now)
        if self._failures:
            raise self._failures[0]
        return None

    def _begin(self, now: float) -> list[Ticket]:
        """Those whose deletion is to be sent, and waited for; one that was lost before is a failure."""
        attended: list[Ticket] = []
        for ticket in self._tickets:
            try:
                if self._core.release(ticket, now, waits=self._waits):
                    attended.append(ticket)
            except LockError as error:
                self._failures.append(error)
        return attended

    def _judge(self, ticket: Ticket) -> None:
        """Its key was gone before, or is not deleted in time; that may still be on its way."""
        deletions = self._core.deletions
        if ticket.stage is Stage.RELEASED:
            self._failures.append(LockLost(f"key {ticket.key!r} was gone before it was released"))
        elif self._is_closed():
            closed = f"the etcd client was closed before key {ticket.key!r} was released"
            self._failures.append(EtcdUnavailable(f"{closed}: it goes with its lease, within {self._core.ttl} s"))
        elif not deletions.is_reported:  # once, for all keys that are deleted later
            deletions.is_reported = True
            logger.warning("key %s, and maybe others, are deleted later: etcd did not confirm it in time", ticket.key)
