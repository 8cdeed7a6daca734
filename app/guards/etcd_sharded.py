"""The stock divided over shards: one script for a purchase, and the etcd mutex only where items move between shards."""

from __future__ import annotations

from app.guards.base import Guard, Promise, Tools
from app.sales.purchase import Purchase, Receipt
from app.sales.shards import Shard, ShardedStock
from lock import LockTimeout

POLL_S = 0.1


class EtcdShardedGuard(Guard):
    """No key is hot, and few purchases need the lock; first come, first served holds for each shard alone.

    All items lie in the treasury at first. A purchase that finds its shard empty moves some of them there, under the
    mutex and its token: a transfer spans two slots, perhaps on two nodes, which no script can do. "Sold out" is what
    such a purchase says that has found every slot empty.
    """

    name = "etcd-sharded"
    promise = Promise.EXACT
    description = "The stock on several shards, a script for each purchase; an etcd mutex to move items. Exact."

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.stocks = {item: ShardedStock(tools.sale, item, instance=tools.instance) for item in tools.stocks}

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stocks[purchase.item]
        shard = stock.shard_of(purchase)  # by the idempotency key, or else the buyer
        purchase.think()
        if not shard.line.locked() and (receipt := stock.sell(shard, purchase)):
            return receipt
        # The shard is empty, or items are on their way: one thread waits for them, and the others wait behind it.
        shard.waiting.append(purchase)
        try:
            with self.in_line(shard.line, purchase):
                while not (receipt := stock.known_sold_out(purchase) or stock.sell(shard, purchase)):
                    self.refill(stock, shard, purchase)
                return receipt
        except LockTimeout:
            self.tools.sale.record.read()  # if etcd does not answer, that is why no items came
            raise
        finally:
            shard.waiting.pop()

    def refill(self, stock: ShardedStock, shard: Shard, purchase: Purchase) -> None:
        """Move items to the shards; or wait a moment, because another thread of this process is about to do it."""
        if stock.line.acquire(blocking=False):
            try:
                with self.locked(self.sessions.cohort(purchase.item), purchase) as turn:
                    stock.refill(shard, turn.token)
            finally:
                stock.line.release()
        elif self.time_left(purchase):
            self.sessions.check_open()
            shard.brought.wait(POLL_S)  # not longer: the other instance may bring some, too
            shard.brought.clear()
        else:
            raise LockTimeout(f"no items came to shard {shard.number} in time")
