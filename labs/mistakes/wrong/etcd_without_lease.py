"""A key in etcd that belongs to no lease."""

from __future__ import annotations

from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from labs.mistakes.guard import EtcdMistake


class EtcdWithoutLease(EtcdMistake):
    """The key of a purchase that dies stays."""

    name = "etcd-without-lease"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "A key in etcd, created if it does not exist."
    found = "https://github.com/hashicorp/vault/pull/2526"
    mend = ("lease_id=0)", "lease_id=self.sessions.session().lease_id)")
    fault = "kill"

    def buy(self, purchase: Purchase) -> Receipt:
        etcd, key, owner = self.sessions.client, self.key(purchase), purchase.order
        while True:
            current = etcd.create(key, owner.encode(), lease_id=0)
            if current and current.value == owner.encode():
                break
            self.pause(purchase)
        try:
            with purchase.critical_section() as section:
                return self.sell(section)
        finally:
            self.release(key, owner)
