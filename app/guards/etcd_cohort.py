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
    waits_in_etcd = True

    def buy(self, purchase: Purchase) -> Receipt:
        stock, cohort = self.stock(purchase.item), self.sessions.cohort(purchase.item)
        with self.locked(cohort, purchase) as turn:
            reading = stock.read(purchase, fence=turn.token)
            if reading.receipt is None:
                purchase.think()
                turn.ensure()
                return stock.write(purchase, reading, fence=turn.token)
            return reading.receipt
