"""The etcd mutex with the fencing token checked by the resource: exact, whatever happens to the holder."""

from __future__ import annotations

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt


class EtcdGuard(Guard):
    """One acquisition per purchase, first come first served over all instances."""

    name = "etcd"
    promise = Promise.EXACT
    description = "An etcd mutex, and Redis refuses every fencing token lower than the highest it has seen. Exact."
    sort_key = 30
    loses_lock = True
    checks_sold_out = True

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        mutex = self.sessions.mutex(purchase.item)
        with self.locked(mutex, purchase) as section:  # waits for the mutex; the critical section begins
            reading = stock.read(section, fence=section.token)  # Redis remembers the token and refuses lower ones
            if reading.receipt is None:  # something is left, and this is not a retry
                section.think()
                section.ensure()  # still ours, by all that is known here
                return stock.write(section, reading, fence=section.token)
            return reading.receipt
