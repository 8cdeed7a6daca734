"""A lock inside each process: right on one instance, useless on two."""

from __future__ import annotations

import threading

from app.guards.base import Guard, Parts, Promise
from app.sales.purchase import Purchase, Receipt


class ThreadGuard(Guard):
    """Threads of one process take turns; the other instance does not know of them."""

    name = "thread"
    promise = Promise.NONE
    description = "A threading.Lock in each instance: the instances still race each other. It oversells."
    sort_key = 20

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        self._locks = {item: threading.Lock() for item in shop.stocks}

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        lock = self._locks[purchase.item]
        with self.in_line(lock, purchase), purchase.critical_section() as section:
            reading = stock.read(section)
            if reading.receipt is None:  # something is left, and this is not a retry
                section.think()
                return stock.write(section, reading)
            return reading.receipt
