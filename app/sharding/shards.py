"""The stock of one item on several shards: a purchase touches one of them, by one script and without a lock.

This divides a hot counter as the escrow method does (P. O'Neil, "The Escrow Transactional Method", ACM TODS 1986).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from zlib import crc32

from app.sales.commit_queue import CommitQueue
from app.sales.purchase import Purchase, Receipt, Section, Token
from app.sales.redis_client import answered_until
from app.sales.refusals import PurchaseError
from app.sales.sale import Sale
from app.sales.stock import Stock
from app.sharding.transfer import Frozen, Transfers

PATIENCE_S = 1.0  # for the nodes, under the mutex


class ShardedStock:
    """The shards of one item, all of them empty at first.

    Attributes:
        line: held by the thread of this process that brings items.
        sold_out: the generation of which nothing is left anywhere.
    """

    def __init__(self, sale: Sale, item: str) -> None:
        self._sale = sale
        self._item = item
        shelves = [Stock(sale, item=item, slot=slot) for slot in sale.slots_of[item][1:]]
        self.shards = [Shard(number, shelf) for number, shelf in enumerate(shelves)]
        self.line = threading.Lock()
        self.sold_out = ""
        self._frozen: Frozen = {}

    def shard_of(self, purchase: Purchase) -> Shard:
        """The same at every instance, so that a retry meets the answer to its idempotency key."""
        return self.shards[crc32((purchase.key or purchase.buyer).encode()) % len(self.shards)]

    def sell(self, shard: Shard, sections: Sequence[Section]) -> list[Receipt | PurchaseError | None]:
        """What comes of each, by one script without a lock; None if the shard is empty and others may have items.

        Raises as `Stock.sell_group`.
        """
        shard.is_empty = False
        shard.brought.clear()  # before the look, which sees what was brought until now
        node = self._sale.slots_of[self._item][1 + shard.number].client.node() if self._frozen else None
        results = shard.stock.sell_group(sections, sold_out=self.sold_out)
        self._frozen.pop(node, None)  # not any more
        shard.is_empty = None in results
        return results

    def refill(self, shard: Shard, fence: Token) -> None:
        """Bring items to the shard and all that are empty; if nothing is left anywhere, they know it then.

        Raises as `Transfers`, if the shard itself gets nothing.
        """
        transfers = Transfers(self._sale, self._item, fence, self._frozen)
        empty = [shard, *(each for each in self.shards if each.is_empty)]
        try:
            with answered_until(time.monotonic() + PATIENCE_S):
                if not transfers.refill({each.number: len(each.queue) for each in empty}):
                    self.sold_out = transfers.generation
        finally:
            for each in self.shards:
                each.brought.set()


@dataclass(eq=False)
class Shard:
    """One of them.

    Attributes:
        queue: the purchases of this process that wait for an answer.
        is_empty: whether it was, by the last answer; not while there is none, as its node may be down.
        brought: set when a thread of this process has brought items since the last look.
    """

    number: int
    stock: Stock
    queue: CommitQueue = field(default_factory=CommitQueue)
    is_empty: bool = False
    brought: threading.Event = field(default_factory=threading.Event)
