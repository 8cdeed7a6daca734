"""The stock of one item on several shards: a purchase touches one of them, by one script and without a lock.

This divides a hot counter as the escrow method does (P. O'Neil, "The Escrow Transactional Method", ACM TODS 1986).
"""

from __future__ import annotations

import threading
import time
from zlib import crc32

from app.sales.inventory import Inventory
from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.sale import Sale
from app.sales.scripts import decided, settled
from app.sales.slots import Slot
from app.sales.tokens import Token
from app.sales.transfer import Transfers


class ShardedStock:
    """The shards of one item, all of them empty at first.

    Attributes:
        line: held by the thread of this process that brings items.
        sold_out: the generation of which nothing is left anywhere, and since when that is known (`time.monotonic`).
    """

    def __init__(self, sale: Sale, item: str, *, instance: str) -> None:
        self.sale = sale
        self.item = item
        self.instance = instance
        self.shards = [Shard(self, number, slot) for number, slot in enumerate(sale.slots_of[item][1:])]
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

    def refill(self, shard: Shard, fence: Token) -> None:
        """Bring items to the shard and all that are empty; if nothing is left anywhere, they know it then.

        Raises as `Transfers`.
        """
        began, transfers = time.monotonic(), Transfers(self.sale, self.item, fence)
        empty = [shard, *(each for each in self.shards if each.is_empty)]
        if not transfers.refill({each.number: len(each.waiting) for each in empty}):
            self.sold_out = transfers.generation, began
        for each in self.shards:
            each.brought.set()


class Shard:
    """One of them.

    Attributes:
        line: held by the thread of this process that found the shard empty; the others wait behind it.
        waiting: purchases in the line; only their number counts, so any of them may leave the list.
        is_empty: whether it was, by the last answer; not while there is none, as its node may be down.
    """

    def __init__(self, stock: ShardedStock, number: int, slot: Slot) -> None:
        self._stock = stock
        self._inventory = Inventory(stock.sale, instance=stock.instance, item=stock.item, slot=slot)
        self.number = number
        self.line = threading.Lock()
        self.waiting: list[Purchase] = []
        self.is_empty = False
        self.brought = threading.Event()

    def wait(self, timeout: float) -> None:
        """Wait until a thread of this process has brought items, or for `timeout` seconds."""
        self.brought.wait(timeout)
        self.brought.clear()

    def sell(self, purchase: Purchase) -> Receipt | None:
        """The whole purchase in one script; None if the shard is empty and others may have items.

        Raises as `Inventory.sell`.
        """
        self.is_empty = False
        ((status, found),) = self._inventory.decide([purchase], sold_out=self._stock.sold_out[0])
        self.is_empty = status == "empty"
        return None if self.is_empty else settled(purchase, status, found)
