"""Group commit: the holder of the etcd mutex commits all waiting purchases of its instance in one fenced script."""

from __future__ import annotations

import time
from collections.abc import Sequence

from app.guards.base import Guard, Promise, Tools
from app.guards.group_commit import CommitQueue, Entry
from app.locking.holding import Held, release
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import GaveUp, InDoubt
from lock import LockTimeout

MOST_AT_ONCE = 128
_RESULT_S = 1.0  # how much longer than its own time a purchase waits for the result of its leader


class EtcdBatchGuard(Guard):
    """Purchases of one group share a critical section and its token; each has its own order and outcome.

    The section lasts as long as the longest think time in the group: its buyers think at the same time. A group has at
    most `MOST_AT_ONCE` purchases. The lock is the one of `etcd-cohort`, whose turns are groups here: the first purchase
    in the other instance waits for at most `slice`, one group and one hand-over.

    Error handling: a failure before the script is sent, or a refusal by it, has written nothing for any of them; a
    lost answer leaves the whole group in doubt. A purchase that times out leaves the queue, unless a group has taken
    it. A leader that cannot reach etcd learns so a moment after its time is up, so the entries behind it wait for its
    result.
    """

    name = "etcd-batch"
    promise = Promise.EXACT
    description = "An etcd mutex whose holder commits all purchases that wait in its instance in one script. Exact."
    waits_in_etcd = True

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queues = {item: CommitQueue() for item in tools.stocks}

    def buy(self, purchase: Purchase) -> Receipt:
        queue, entry = self.queues[purchase.item], Entry(purchase)
        queue.add(entry)
        try:
            if not entry.wait(self.time_left(purchase) + _RESULT_S) and queue.remove(entry):
                name = self.sessions.name(purchase.item)
                raise GaveUp(f"others of this instance waited for lock {name!r}, but not in time")
            if entry.leads:
                self._lead(queue, entry)
        except BaseException:
            queue.remove(entry)  # or the queue would wait for this thread
            raise
        return entry.result()

    def _lead(self, queue: CommitQueue, leader: Entry) -> None:
        try:
            turn = self.sessions.cohort(leader.purchase.item).acquire(timeout=self.time_left(leader.purchase))
        except LockTimeout:
            raise  # the next one has a little more time
        except Exception as error:
            queue.fail_all(error)  # each entry would fail with the same error
            raise
        try:
            self._commit(queue.take(MOST_AT_ONCE), turn)
        finally:
            release(turn, leader.purchase)

    def _commit(self, group: Sequence[Entry], turn: Held) -> None:
        purchases = [entry.purchase for entry in group]
        for purchase in purchases:
            purchase.enter(turn.token)
        interrupted = InDoubt("the thread that committed this purchase was interrupted")
        results: Sequence[Receipt | Exception] = [interrupted] * len(group)
        try:
            time.sleep(max(purchase.hold_s for purchase in purchases))
            turn.ensure()
            results = self.stock(purchases[0].item).sell_group(purchases, fence=turn.token)
        except Exception as error:
            results = [error] * len(group)
        finally:
            for entry, result in zip(group, results, strict=True):
                entry.purchase.leave(result if isinstance(result, Exception) else None)
                self.notice_sold_out(entry.purchase)
                entry.settle(result)
