"""Group commit: whoever has the etcd mutex commits all purchases that wait in its instance, in one fenced script."""

from __future__ import annotations

import time
from collections.abc import Sequence

from app.guards.base import Guard, Promise, Tools
from app.guards.holding import Held, release
from app.guards.line import Line, Member
from app.purchase import Purchase, Receipt
from app.refusals import GaveUp
from lock import LockTimeout

MOST_AT_ONCE = 128


class EtcdBatchGuard(Guard):
    """Buyers of one group share a critical section and its token; each has an order and an outcome of its own.

    The section lasts as long as the longest think time in the group: its buyers think at the same time. A group has at
    most `MOST_AT_ONCE` purchases. The lock is the one of `etcd-cohort`, whose turns are groups here: whoever stands
    first in the other instance waits for at most `slice`, one group and one hand-over.

    Error handling: what fails before the script was sent, or is refused by it, has written nothing for anybody; a lost
    answer leaves the whole group in doubt. A buyer whose patience ends in line steps out; one who was taken into a
    group gets what comes of it.
    """

    name = "etcd-batch"
    promise = Promise.EXACT
    description = "An etcd mutex whose holder commits all purchases that wait in its instance in one script. Exact."

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._lines = {item: Line() for item in tools.inventories}

    def buy(self, purchase: Purchase) -> Receipt:
        sold_out = self.inventory(purchase).short_cut(purchase)
        if sold_out is not None:
            return sold_out
        member = Member(purchase, patience=self.tools.lock_timeout)
        line = self._lines[purchase.item]
        line.join(member)
        if not member.wait() and line.leave(member):
            name = self.tools.coordination.name(purchase.item)
            raise GaveUp(f"others of this instance waited for lock {name!r}, but not in time")
        if member.leads:
            self._lead(line, member)
        return member.result()

    def _lead(self, line: Line, leader: Member) -> None:
        try:
            turn = self.tools.coordination.cohort(leader.purchase.item).acquire(timeout=leader.patience)
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
