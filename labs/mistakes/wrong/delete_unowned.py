"""Delete the lock without a look at its owner."""

from __future__ import annotations

from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from labs.mistakes.guard import Mistake


class DeleteUnowned(Mistake):
    """An attempt in vain ends as one that has got the lock: it deletes that of another purchase."""

    name = "delete-unowned"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "DEL at the end of each attempt."
    found = "https://github.com/alibaba/spring-ai-alibaba/pull/326, https://github.com/nexspence/nexspence/issues/223"
    mend = ("self.redis.delete(key)", "self.release(key, owner)  # a script: DEL if GET is the owner")

    def buy(self, purchase: Purchase) -> Receipt:
        key, owner = self.key(purchase), purchase.order
        while True:
            try:
                if self.redis.set(key, owner, nx=True, px=self.ttl_ms):
                    with purchase.critical_section() as section:
                        return self.sell(section)
            finally:
                self.redis.delete(key)
            self.pause(purchase)
