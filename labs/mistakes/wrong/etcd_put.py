"""Write the key in etcd without the comparison that it does not exist."""

from __future__ import annotations

from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from labs.mistakes.guard import EtcdMistake


class EtcdPut(EtcdMistake):
    """Two purchases find no key, and the second one overwrites that of the first."""

    name = "etcd-put"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "A key in etcd: a Range, then a Put."
    found = "https://github.com/flatcar/locksmith/pull/12"
    mend = (
        """
            if not etcd.get(key):
                etcd.put(key, owner, lease_id=self.sessions.session().lease_id)
                break
""",
        """
            current = etcd.create(key, owner.encode(), self.sessions.session().lease_id)  # one transaction
            if current and current.value == owner.encode():
                break
""",
    )

    def buy(self, purchase: Purchase) -> Receipt:
        etcd, key, owner = self.sessions.client, self.key(purchase), purchase.order
        while True:
            if not etcd.get(key):
                etcd.put(key, owner, lease_id=self.sessions.session().lease_id)
                break
            self.pause(purchase)
        try:
            with purchase.critical_section() as section:
                return self.sell(section)
        finally:
            self.release(key, owner)
