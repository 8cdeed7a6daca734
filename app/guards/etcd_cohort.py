"""The etcd mutex, handed from thread to thread inside an instance: one hand-over over etcd for many purchases."""

from __future__ import annotations

from app.guards.base import Guard, Promise
from app.guards.holding import holding
from app.purchase import Purchase, Receipt


class EtcdCohortGuard(Guard):
    """Every purchase has a turn of its own, with a token of its own: the pair (create revision, turn).

    While another instance waits, a hold ends after `CohortMutex`'s `batch` turns or `slice` seconds. So whoever stands
    first in the other instance waits for at most `slice`, one critical section and one hand-over.
    """

    name = "etcd-cohort"
    promise = Promise.EXACT
    description = "An etcd mutex that an instance hands along inside for a moment, with fencing tokens. Exact."

    def buy(self, purchase: Purchase) -> Receipt:
        inventory = self.inventory(purchase)
        sold_out = inventory.short_cut(purchase)
        if sold_out is not None:
            return sold_out
        with holding(self.tools.coordination.cohort(purchase.item), purchase, timeout=self.tools.lock_timeout) as turn:
            reading = inventory.fenced_read(purchase)
            if reading.receipt is not None:
                return reading.receipt
            purchase.think()
            turn.ensure()
            return inventory.fenced_write(purchase, reading)
