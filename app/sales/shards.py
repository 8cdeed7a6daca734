"""The stock of one item on several shards: a purchase touches one of them, by one script and without a lock.

This divides a hot counter as the escrow method does (P. O'Neil, "The Escrow Transactional Method", ACM TODS 1986).
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from zlib import crc32

from app.sales.inventory import Inventory
from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.sale import Sale
from app.sales.scripts import decided, settled
from app.sales.tokens import Token
from app.sales.transfer import Transfers


class ShardedStock:
    """The shards of one item, all of them empty at first.

    Attributes:
        line: held by the thread of this process that brings items.
        sold_out: the generation of which nothing is left anywhere, and since when that is known (`time.monotonic`).
    """

    def __init__(self, sale: Sale, item: str, *, instance: str) -> None:
        self._sale = sale
        self._item = item
        shelves = [Inventory(sale, instance=instance, item=item, slot=slot) for slot in sale.slots_of[item][1:]]
        self.shards = [Shard(number, shelf) for number, shelf in enumerate(shelves)]
        self.line = threading.Lock()
        self.sold_out: tuple[str, float] = "", 0.0

    def shard_of(self, purchase: Purchase) -> Shard:
        """The same at every instance, so that a retry meets the answer to its idempotency key."""
        return self.shards[crc32((purchase.key or purchase.buyer).encode()) % len(self.shards)]

    def known_sold_out(self, purchase: Purchase) -> Receipt | None:
        """Say so without asking Redis, if it was found true while the purchase was waiting.

        An idempotency key asks for itself, because the answer has to be kept.
        """
        found = purchase.began < self.sold_out[1] and not purchase.key
        return decided(purchase, Outcome.SOLD_OUT, 0) if found else None

    def sell(self, shard: Shard, purchase: Purchase) -> Receipt | None:
        """The whole purchase in one script without a lock; None if the shard is empty and others may have items.

        Raises as `Inventory.sell`.
        """
        with purchase.critical_section():
            shard.is_empty = False
            ((status, found),) = shard.inventory.decide([purchase], sold_out=self.sold_out[0])
            shard.is_empty = status == "empty"
            return None if shard.is_empty else settled(purchase, status, found)

    def refill(self, shard: Shard, fence: Token) -> None:
        """Bring items to the shard and all that are empty; if nothing is left anywhere, they know it then.

        Raises as `Transfers`.
        """
        began, transfers = time.monotonic(), Transfers(self._sale, self._item, fence)
        empty = [shard, *(each for each in self.shards if each.is_empty)]
        if not transfers.refill({each.number: len(each.waiting) for each in empty}):
            self.sold_out = transfers.generation, began
        for each in self.shards:
            each.brought.set()


@dataclass(eq=False)
class Shard:
    """One of them.

    Attributes:
        line: held by the thread of this process that found the shard empty; the others wait behind it.
        waiting: purchases in the line; only their number counts, so any of them may leave the list.
        is_empty: whether it was, by the last answer; not while there is none, as its node may be down.
        brought: set when a thread of this process has brought items.
    """

    number: int
    inventory: Inventory
    line: threading.Lock = field(default_factory=threading.Lock)
    waiting: list[Purchase] = field(default_factory=list)
    is_empty: bool = False
    brought: threading.Event = field(default_factory=threading.Event)
