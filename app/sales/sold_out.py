"""Sold out without a lock: one look at an empty stock is enough for all whose request began before it.

Nothing is remembered that a reset or a delivery would have to take back: the stock itself is asked. What was seen tells
whether asking is worth while. A request that began before another one asked need not ask again: that answer was true at
a moment when the request was waiting for its own. (A request with an idempotency key asks for itself, because the
answer has to be kept.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.script_results import decided


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at the stock that found nothing: not sent before `asked` (`time.monotonic`); `stock` items were left."""

    asked: float
    stock: int


class SoldOutCheck:
    """What this process has seen of one item, from the first look under the lock for as long as it is true.

    Args:
        read: asks Redis without a lock: the answer, or None if there is something to buy.
    """

    def __init__(self, read: Callable[[Purchase], Receipt | None]) -> None:
        self._read = read
        self._last: _Look | None = None

    def seen(self, asked: float, stock: int) -> None:
        """A look at the stock, sent at `asked` or later, has found nothing."""
        self._last = _Look(asked, stock)

    def answer(self, purchase: Purchase) -> Receipt | None:
        """Say "sold out", if it was seen before and Redis says that it is still so."""
        last = self._last
        if last is None:
            return None
        if purchase.began < last.asked and not purchase.key:
            return decided(purchase, Outcome.SOLD_OUT, last.stock)
        asked = time.monotonic()
        receipt = self._read(purchase)
        if receipt is None:
            self._last = None
        elif receipt.outcome is Outcome.SOLD_OUT and not receipt.replayed and isinstance(receipt.stock, int):
            self.seen(asked, receipt.stock)
        return receipt
