"""Sold out without a lock: one look at an empty stock is enough for all whose request had come before it.

Nothing is remembered that a reset or a delivery would have to take back: the stock itself is asked. What was seen tells
whether asking is worth while; and whoever had clicked before somebody else asked need not ask again, for that answer
was true at a moment when he waited for his. (One who brings an idempotency key asks for himself, because the answer has
to be kept.)
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.sale import Sale
from app.sales.script_results import decided, settled


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the stock that found nothing.

    Attributes:
        asked: when it was sent, in the seconds of `time.monotonic`.
        stock: items left, as it found and as those are told who are answered by it.
    """

    asked: float
    stock: int


class SoldOutCheck:
    """What this process has seen of one item; open from the first look under the lock for as long as it is true."""

    def __init__(self, sale: Sale, *, instance: str, item: str) -> None:
        self._instance = instance
        keys = sale.keys_of[item]
        self._ask = sale.script("sold_out", keys.stock, keys.generation, keys.answers)
        self._last: Look | None = None

    def open(self, asked: float, stock: str) -> None:
        """A look at the stock, sent at `asked`, has found nothing."""
        self._last = Look(asked, int(stock))

    def take(self, purchase: Purchase) -> Receipt | None:
        """Say "sold out", if it was seen before and Redis says that it is still so."""
        seen = self._last
        if seen is None:
            return None
        if purchase.began < seen.asked and not purchase.key:
            return decided(purchase, Outcome.SOLD_OUT, seen.stock)
        asked = time.monotonic()
        with purchase.timing("read"):
            status, *found = self._ask(purchase.key or "", purchase.entry(self._instance))
        if status == "open":
            self._last = None
            return None
        if status == "sold_out":
            self.open(asked, found[0])
        return settled(purchase, status, found[0])
