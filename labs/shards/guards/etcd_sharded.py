"""The stock divided over shards: no lock for a purchase, and the etcd mutex only where items move between shards."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from app.guards.base import Guard, Parts, Promise
from app.sales.commit_queue import QueuedPurchase
from app.sales.purchase import Purchase, Receipt, think_for
from labs.shards.claims import Claims
from labs.shards.settings import ShardSettings
from labs.shards.shards import Shard, ShardedStock
from labs.shards.transfer import SLOT_ERRORS
from lock import EtcdUnavailable, LockTimeout

POLL_S = 0.1


class EtcdShardedGuard(Guard):
    """No key is hot, and few purchases need the lock; first come, first served holds for each shard alone.

    Purchases of one instance that wait for the same shard are made by one script. All items lie in the treasury at
    first. A purchase that finds its shard empty moves some of them there, under the mutex and its token: a transfer
    spans two slots, perhaps on two nodes, which no script can do. "Sold out" is what such a purchase says that has
    found every slot empty.

    With an idempotency key a purchase needs the treasury twice more, for the claim of the key and for its answer.
    """

    name = "etcd-sharded"
    promise = Promise.EXACT
    description = "The stock on several shards, a script for those who wait there; an etcd mutex to move items. Exact."
    order = 70
    loses_lock = True
    # For `make schedules`: two buyers meet at one shard, and one transfer is enough; with a fault, the shards are open.
    smallest: ClassVar = {"FLASHSALE_SHARDS": "2"}
    sold_before: ClassVar = 1

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        shards = ShardSettings.from_environment().shards
        self.claims = Claims(shop.sale)
        self.stocks = {item: ShardedStock(shop.sale, item, shards, self.claims) for item in shop.stocks}

    def buy(self, purchase: Purchase) -> Receipt:
        think_for(purchase.hold_s)
        if not purchase.key:
            return self.sell(purchase)
        try:
            if first := self.claims.claim(purchase):
                with purchase.critical_section() as section:  # so that the section log has the replay, too
                    section.receipt = first
                return first
            receipt = self.sell(purchase)
            self.claims.answer(purchase, receipt)
            return receipt
        finally:
            self.claims.forget(purchase)

    def sell(self, purchase: Purchase) -> Receipt:
        """Sell from a shard: the one of the idempotency key, or else of the buyer."""
        stock = self.stocks[purchase.item]
        shard = stock.shard_of(purchase)
        try:
            return shard.queue.buy(purchase, self.time_left, partial(self.lead, stock, shard))
        except LockTimeout:
            self.shop.sale.read_etcd()  # if etcd does not answer, that is why no items came
            raise

    def lead(self, stock: ShardedStock, shard: Shard, leader: QueuedPurchase) -> None:
        """Sell to all that wait at the shard, and bring items, until the leader has its answer."""
        shard.queue.serve(partial(stock.sell, shard))
        while leader.result is None:
            self.refill(stock, shard, leader.purchase)
            shard.queue.serve(partial(stock.sell, shard))

    def refill(self, stock: ShardedStock, shard: Shard, purchase: Purchase) -> None:
        """Move items to the shards; or wait a moment, because another thread of this process is about to do it."""
        if stock.line.acquire(blocking=False):
            try:
                with self.locked(self.sessions.cohort(purchase.item), purchase) as section:
                    assert section.token is not None
                    stock.refill(shard, section.token)
            except (EtcdUnavailable, *SLOT_ERRORS) as error:
                shard.queue.fail(error)
                raise
            finally:
                stock.line.release()
        elif self.time_left(purchase):
            self.sessions.check_open()
            shard.brought.wait(POLL_S)  # not longer: the other instance may bring some, too
        else:
            raise LockTimeout(f"no items came to shard {shard.number} in time")
