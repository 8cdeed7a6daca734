"""The etcd mutex with the fencing token checked by the resource: exact, whatever happens to the holder."""

from __future__ import annotations

from app.guards.base import Guard, Promise
from app.guards.holding import holding
from app.purchase import Purchase, Receipt


class EtcdGuard(Guard):
    """One acquisition per purchase, first come first served over all instances."""

    name = "etcd"
    promise = Promise.EXACT
    description = "An etcd mutex, and Redis refuses every fencing token lower than the highest it has seen. Exact."

    def buy(self, purchase: Purchase) -> Receipt:
        inventory = self.inventory(purchase)
        sold_out = inventory.short_cut(purchase)
        if sold_out is not None:
            return sold_out
        with holding(self.tools.coordination.mutex(purchase.item), purchase, timeout=self.tools.lock_timeout) as hold:
            reading = inventory.fenced_read(purchase)
            if reading.receipt is not None:
                return reading.receipt
            purchase.think()
            hold.ensure()
            return inventory.fenced_write(purchase, reading)
