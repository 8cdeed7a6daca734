"""The stock of one item on several shards: a purchase touches one of them, by one script and without a lock.

This divides a hot counter as the escrow method does (P. O'Neil, "The Escrow Transactional Method", ACM TODS 1986).
"""

from __future__ import annotations

import threading
import time
from zlib import crc32

from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.sale import Sale
from app.sales.scripts import Script, decided, sending, settled
from app.sales.slots import Slot
from app.sales.tokens import Token
from app.sales.transfer import Transfers


class ShardedStock:
    """The shards of one item, all of them empty at first.

    Attributes:
        sold_out: the generation of which nothing is left anywhere, and since when that is known (`time.monotonic`).
    """

    def __init__(self, sale: Sale, item: str, *, instance: str) -> None:
        self.sale = sale
        self.item = item
        self.instance = instance
        self.shards = [Shard(self, number, slot) for number, slot in enumerate(sale.slots_of[item][1:])]
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


class Shard:
    """One of them.

    Attributes:
        line: held by the thread of this process that brings items; the others wait behind it.
    """

    def __init__(self, stock: ShardedStock, number: int, slot: Slot) -> None:
        self._stock = stock
        self._number = number
        self._slot = slot
        self._script = Script(slot.client, "shard_sell")
        self.line = threading.Lock()

    def sell(self, purchase: Purchase) -> Receipt | None:
        """The whole purchase in one script; None if the shard is empty and others may have items.

        Raises as `Inventory.sell`.
        """
        sale, item, k = self._stock.sale, self._stock.item, self._slot.keys
        generation = sale.generation(item)
        last = "last" if generation and generation == self._stock.sold_out[0] else ""
        with purchase.timing("commit"), sending():
            status, found = self._script(
                [k.stock, k.lucky, k.orders, k.generation, k.answers],
                [generation, purchase.key or "", purchase.entry(self._stock.instance), last],
            )
        if status == "generation":
            sale.reconcile(item, found, self._slot)
            return self.sell(purchase)
        return None if status == "empty" else settled(purchase, status, found)

    def refill(self, fence: Token) -> bool:
        """Bring items here; False if nothing is left anywhere, which all shards know then. Raises as `Transfers`."""
        began, transfers = time.monotonic(), Transfers(self._stock.sale, self._stock.item, fence)
        if transfers.refill(self._number):
            return True
        self._stock.sold_out = transfers.generation, began
        return False
