"""The etcd mutex alone, as most articles build it: exact only while nobody holds it longer than the lease lives."""

from __future__ import annotations

from app.guards.base import Guard, Promise, read_modify_write
from app.locking.holding import holding
from app.sales.purchase import Purchase, Receipt


class EtcdUnfencedGuard(Guard):
    """The holder believes in its lock. After a long pause it writes, although the lock is somebody else's by then."""

    name = "etcd-unfenced"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "An etcd mutex without fencing: exact until a holder is paused for longer than its lease."

    def buy(self, purchase: Purchase) -> Receipt:
        with holding(self.tools.sessions.mutex(purchase.item), purchase, timeout=self.tools.lock_timeout):
            return read_modify_write(self.inventory(purchase), purchase)
