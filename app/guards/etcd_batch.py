"""Group commit: whoever has the etcd mutex commits all purchases that wait in its instance, in one fenced script."""

from __future__ import annotations

import time
from collections.abc import Sequence

from app.guards.base import Promise, Tools
from app.guards.group_commit import Line, Member
from app.guards.short_cut import SoldOutGuard
from app.locking.holding import Held, release
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import GaveUp
from lock import LockTimeout

MOST_AT_ONCE = 128
_VERDICT_S = 1.0  # how much longer than his own time a buyer waits to hear why his leader got no lock


class EtcdBatchGuard(SoldOutGuard):
    """Buyers of one group share a critical section and its token; each has an order and an outcome of its own.

    The section lasts as long as the longest think time in the group: its buyers think at the same time. A group has at
    most `MOST_AT_ONCE` purchases. The lock is the one of `etcd-cohort`, whose turns are groups here: whoever stands
    first in the other instance waits for at most `slice`, one group and one hand-over.

    Error handling: what fails before the script was sent, or is refused by it, has written nothing for anybody; a lost
    answer leaves the whole group in doubt. A buyer whose time is up in line steps out; one who was taken into a group
    gets what comes of it. Whoever cannot get the lock because etcd is away learns so a moment after his time is up, so
    those behind him wait for his verdict.
    """

    name = "etcd-batch"
    promise = Promise.EXACT
    description = "An etcd mutex whose holder commits all purchases that wait in its instance in one script. Exact."

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._lines = {item: Line() for item in tools.inventories}

    def buy_locked(self, purchase: Purchase, *, timeout: float) -> Receipt:
        member = Member(purchase, timeout=timeout)
        line = self._lines[purchase.item]
        line.join(member)
        if not member.wait(_VERDICT_S) and line.leave(member):
            name = self.tools.sessions.name(purchase.item)
            raise GaveUp(f"others of this instance waited for lock {name!r}, but not in time")
        if member.leads:
            self._lead(line, member)
        return member.result()

    def _lead(self, line: Line, leader: Member) -> None:
        try:
            turn = self.tools.sessions.cohort(leader.purchase.item).acquire(timeout=leader.remaining())
        except LockTimeout:
            line.leave(leader)  # the next one has a little more time
            raise
        except Exception as error:
            line.dissolve(error)  # and would fail like this one
            raise
        try:
            self._commit(line.take(MOST_AT_ONCE), turn)
        finally:
            release(turn, leader.purchase)

    def _commit(self, group: Sequence[Member], turn: Held) -> None:
        purchases = [member.purchase for member in group]
        for purchase in purchases:
            purchase.enter(turn.token)
        results: Sequence[Receipt | Exception]
        try:
            time.sleep(max(purchase.hold_s for purchase in purchases))
            turn.ensure()
            results = self.inventory(purchases[0]).fenced_group(purchases)
        except Exception as error:
            results = [error] * len(group)
        for member, result in zip(group, results, strict=True):
            member.purchase.leave(result if isinstance(result, Exception) else None)
            member.settle(result)
