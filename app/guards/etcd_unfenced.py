"""The etcd mutex alone, as most articles build it: exact until a holder is paused for longer than its lease."""

from __future__ import annotations

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt


class EtcdUnfencedGuard(Guard):
    """The holder believes in its lock. After a long pause it writes, although another holder has the lock by then."""

    name = "etcd-unfenced"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "An etcd mutex without fencing: exact until a holder is paused for longer than its lease."
    sort_key = 40
    loses_lock = True
    checks_sold_out = True

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        mutex = self.sessions.mutex(purchase.item)
        with self.locked(mutex, purchase) as section:  # waits for the mutex; the critical section begins
            reading = stock.read(section)
            if reading.receipt is None:  # something is left, and this is not a retry
                section.think()
                return stock.write(section, reading)
            return reading.receipt
