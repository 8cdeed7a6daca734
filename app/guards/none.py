"""Nothing stands around the purchase: the baseline, and the race."""

from __future__ import annotations

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt


class NoGuard(Guard):
    """Buyers read the same stock, and each of them writes one less."""

    name = "none"
    promise = Promise.NONE
    description = "No lock at all: two buyers read the same stock and both get the item. It oversells."
    sort_key = 10

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        with purchase.critical_section() as section:  # which nothing keeps others out of
            reading = stock.read(section)
            if reading.receipt is None:  # something is left, and this is not a retry
                section.think()
                return stock.write(section, reading)
            return reading.receipt
