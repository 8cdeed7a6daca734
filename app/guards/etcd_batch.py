"""Group commit: the holder of the etcd mutex commits all waiting purchases of its instance in one fenced script.

They stand in a commit queue, whose leader gets the lock for all and commits a group. The next entry leads then, and
waits for the lock while the group before is being committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from app.guards.base import Guard, Parts, Promise, release
from app.sales.commit_queue import CommitQueue, QueuedPurchase, Result
from app.sales.purchase import Purchase, Receipt, Section, think_for
from lock import LockTimeout, Turn


class EtcdBatchGuard(Guard):
    """Purchases of one group share a critical section and its token; each has its own order and outcome.

    The section lasts as long as the longest think time in the group: its buyers think at the same time. The lock is the
    one of `etcd-cohort`, whose turns are groups here: the first purchase in the other instance waits for at most
    `slice`, one group and one hand-over.

    Error handling: a failure before the script is sent, or a refusal by it, has written nothing for any of them; a
    lost answer leaves the whole group in doubt. A leader that cannot reach etcd fails all entries. It learns so a
    moment after its time is up, so the entries behind it wait for its result.
    """

    name = "etcd-batch"
    promise = Promise.EXACT
    description = "An etcd mutex whose holder commits all purchases that wait in its instance in one script. Exact."
    sort_key = 60
    loses_lock = True
    checks_sold_out = True

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        self.queues = {item: CommitQueue() for item in shop.stocks}

    def buy(self, purchase: Purchase) -> Receipt:
        queue = self.queues[purchase.item]
        return queue.buy(purchase, self.time_left, partial(self._lead, queue))

    def _lead(self, queue: CommitQueue, leader: QueuedPurchase) -> None:
        try:
            turn = self.sessions.cohort(leader.purchase.item).acquire(timeout=self.time_left(leader.purchase))
        except LockTimeout:
            raise  # the next one has a little more time
        except Exception as error:
            queue.fail(error)
            raise
        try:
            queue.serve(partial(self._commit, turn, partial(queue.resign, leader)), turn)
        finally:
            release(turn, leader.purchase)

    def _commit(self, turn: Turn, resign: Callable[[], None], group: Sequence[Section]) -> Sequence[Result]:
        resign()  # so that the next one waits for the lock already
        stock = self.stock(group[0].purchase.item)
        think_for(max(section.purchase.think_s for section in group))
        turn.ensure()
        results = stock.sell_group(group, fence=turn.token)
        for section in group:
            stock.note_sold_out(section)
        return results
