"""The etcd mutex, handed from thread to thread inside an instance: one hand-over over etcd for many purchases."""

from __future__ import annotations

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt


class EtcdCohortGuard(Guard):
    """Each purchase has its own turn with its own token: the pair (create revision, turn).

    While another instance waits, a hold ends after `CohortMutex`'s `batch` turns or `slice` seconds. So the first
    purchase in the other instance waits for at most `slice`, one critical section and one hand-over.
    """

    name = "etcd-cohort"
    promise = Promise.EXACT
    description = "An etcd mutex that an instance hands along inside for a moment, with fencing tokens. Exact."
    sort_key = 50
    loses_lock = True
    checks_sold_out = True

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        cohort = self.sessions.cohort(purchase.item)
        with self.locked(cohort, purchase) as section:
            reading = stock.read(section, fence=section.token)
            if reading.receipt is None:
                section.think()
                section.ensure()
                return stock.write(section, reading, fence=section.token)
            return reading.receipt
