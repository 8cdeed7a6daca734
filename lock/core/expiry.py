"""When holds give themselves up (`max_hold`)."""

import math

from lock.core.core import Core
from lock.core.queue import Observer, Stage, Ticket
from lock.errors import HoldExpired

_KEPT = 64  # entries that may be kept in vain


class Expiry(Observer):
    """The holds of a session that have an end.

    The entry of a hold that is released before its end stays until the next end, or until such entries are most of all.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        core.observers[self] = None
        self._ends: dict[Ticket, tuple[float, str]] = {}
        self._due = math.inf  # not later than the first end

    def expire_in(self, ticket: Ticket, seconds: float, reason: str, now: float) -> float:
        """Give the hold up after so long, for this reason; the time. Stage: HELD; else nothing is done."""
        at = now + seconds
        if ticket.stage is Stage.HELD:
            if len(self._ends) > _KEPT + 2 * len(self._core.tickets):
                self._ends = {each: end for each, end in self._ends.items() if each.stage is Stage.HELD}
            self._ends[ticket] = at, reason
            if at < self._due:
                self._due, self._core.outbox.is_early = at, True
        return at

    def poll(self, now: float) -> float:
        """End those whose time is over; when the next one ends."""
        if now >= self._due:
            self._ends = {ticket: end for ticket, end in self._ends.items() if ticket.stage is Stage.HELD}
            for ticket, (at, reason) in self._ends.items():
                if at <= now:
                    self._core.endings.fail(ticket, HoldExpired(f"{reason}: key {ticket.key!r} is given up"), now)
            self._due = min((at for at, _ in self._ends.values() if at > now), default=math.inf)
        return self._due
