"""Nothing stands around the purchase: the baseline, and the race."""

from __future__ import annotations

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt


class NoGuard(Guard):
    """Buyers read the same stock, and each of them writes one less."""

    name = "none"
    promise = Promise.NONE
    description = "No lock at all: two buyers read the same stock and both get the item. It oversells."

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        with purchase.critical_section():  # which nothing keeps others out of
            reading = stock.read(purchase)
            if reading.receipt is None:  # something is left, and this is not a retry
                purchase.think()
                return stock.write(purchase, reading)
            return reading.receipt
