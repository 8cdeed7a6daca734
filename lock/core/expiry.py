"""When holds give themselves up (`max_hold`)."""

import heapq
import itertools
import math

from lock.core.queue import Stage, Ticket

_KEPT = 64  # entries that may be kept in vain


class Expiry:
    """The holds that have an end, the first one first.

    The entry of a hold that is released before its end stays until it is met, or until such entries are half of all.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Ticket, str]] = []
        self._numbers = itertools.count()
        self._limit = _KEPT

    def add(self, ticket: Ticket, at: float, reason: str) -> bool:
        """A hold ends at this time, and no other; whether it is the next one to end."""
        ticket.expires = at
        if len(self._entries) >= self._limit:
            self._entries = [entry for entry in self._entries if _counts(entry)]
            heapq.heapify(self._entries)
            self._limit = max(_KEPT, 2 * len(self._entries))
        heapq.heappush(self._entries, (at, next(self._numbers), ticket, reason))
        return self.next() == at

    def next(self) -> float:
        """When the next hold ends; `math.inf` where none does."""
        while self._entries and not _counts(self._entries[0]):
            heapq.heappop(self._entries)
        return self._entries[0][0] if self._entries else math.inf

    def take(self, now: float) -> list[tuple[Ticket, str]]:
        """Those whose time is over, each with the reason that it was given."""
        over = []
        while self.next() <= now:
            _, _, ticket, reason = heapq.heappop(self._entries)
            over.append((ticket, reason))
        return over


def _counts(entry: tuple[float, int, Ticket, str]) -> bool:
    at, _, ticket, _ = entry
    return ticket.stage is Stage.HELD and ticket.expires == at
