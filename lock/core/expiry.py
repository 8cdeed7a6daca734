"""When holds give themselves up (`max_hold`)."""

import heapq
import itertools
import math

from lock.core.core import Core
from lock.core.queue import Observer, Stage, Ticket
from lock.errors import HoldExpired

_KEPT = 64  # entries that may be kept in vain


class Expiry(Observer):
    """The holds of a session that have an end, the first one first.

    The entry of a hold that is released before its end stays until it is met, or until such entries are most of all.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        core.observers[self] = None
        self._entries: list[tuple[float, int, Ticket, str]] = []
        self._numbers = itertools.count()

    def expire_in(self, ticket: Ticket, seconds: float, reason: str, now: float) -> float:
        """Give the hold up after so long, for this reason; the time. Stage: HELD; else nothing is done."""
        at = now + seconds
        if ticket.stage is Stage.HELD:
            if len(self._entries) > _KEPT + 2 * len(self._core.tickets):
                self._entries = [entry for entry in self._entries if entry[2].stage is Stage.HELD]
                heapq.heapify(self._entries)
            heapq.heappush(self._entries, (at, next(self._numbers), ticket, reason))
            self._core.outbox.is_early |= self._entries[0][0] == at
        return at

    def poll(self, now: float) -> float:
        """End those whose time is over; when the next one ends."""
        while self._entries:
            at, _, ticket, reason = self._entries[0]
            if ticket.stage is Stage.HELD and at > now:
                return at
            heapq.heappop(self._entries)
            if ticket.stage is Stage.HELD:
                self._core.endings.fail(ticket, HoldExpired(f"{reason}: key {ticket.key!r} is given up"), now)
        return math.inf
