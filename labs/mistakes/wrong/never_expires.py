"""A lock without a life span."""

from __future__ import annotations

from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from labs.mistakes.guard import Mistake


class NeverExpires(Mistake):
    """The lock of a purchase that dies inside is never free again."""

    name = "never-expires"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "SET NX without a life span."
    found = "https://github.com/kongluoxing/celerybeatredis/issues/11, https://github.com/dv/redis-semaphore/pull/5"
    mend = ("nx=True)", "nx=True, px=self.ttl_ms)")
    fault = "kill"

    def buy(self, purchase: Purchase) -> Receipt:
        key, owner = self.key(purchase), purchase.order
        while not self.redis.set(key, owner, nx=True):
            self.pause(purchase)
        try:
            with purchase.critical_section() as section:
                return self.sell(section)
        finally:
            self.release(key, owner)
