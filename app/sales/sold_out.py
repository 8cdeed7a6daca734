"""The sold-out check: one look at an empty stock answers all requests that began before it, without the lock.

The stock itself is asked, so a reset or a delivery need not correct anything. A look under the lock decides whether
asking is worth while. A request that began before another one asked need not ask again: that answer was true while the
request was waiting for its own. (A request with an idempotency key asks for itself, because its answer has to be kept.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.sales.purchase import Outcome, Purchase, Receipt
from app.sales.scripts import decided


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at the stock that found nothing: not sent before `asked` (`time.monotonic`); `stock` items were left."""

    asked: float
    stock: int


class SoldOutCheck:
    """The last look at the empty stock of one item; `read` asks Redis without a lock, None means items are left."""

    def __init__(self, read: Callable[[Purchase], Receipt | None]) -> None:
        self._read = read
        self._last: _Look | None = None

    def seen(self, asked: float, stock: int) -> None:
        """Note a look at the stock, sent at `asked` or later, that found nothing."""
        self._last = _Look(asked, stock)

    def answer(self, purchase: Purchase) -> Receipt | None:
        """The receipt for "sold out", if an empty stock was seen before and Redis confirms it."""
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
