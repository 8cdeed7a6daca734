"""The etcd mutex, and a last look at it before the write: exact unless the holder is paused between the two."""

from __future__ import annotations

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt


class EtcdCheckedGuard(Guard):
    """The holder notices a lock that it has lost. A check can't help if the pause falls between it and the write."""

    name = "etcd-checked"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "An etcd mutex, checked before the write: exact until a holder is paused between check and write."
    sort_key = 35
    loses_lock = True
    checks_sold_out = True

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        mutex = self.sessions.mutex(purchase.item)
        with self.locked(mutex, purchase) as section:  # waits for the mutex; the critical section begins
            reading = stock.read(section)
            if reading.receipt is None:  # something is left, and this is not a retry
                section.think()
                section.ensure()  # still ours, by all that is known here
                return stock.write(section, reading)
            return reading.receipt
