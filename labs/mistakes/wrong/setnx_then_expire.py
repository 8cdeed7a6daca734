"""Take the lock, then say when it ends."""

from __future__ import annotations

from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from labs.mistakes.guard import Mistake


class SetnxThenExpire(Mistake):
    """A purchase that dies between the two leaves a lock that never ends."""

    name = "setnx-then-expire"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "SETNX, then PEXPIRE."
    found = "https://github.com/laravel/horizon/issues/1738, https://github.com/redis/redis-py/pull/902"
    mend = (
        """
        while not self.redis.setnx(key, owner):
            self.pause(purchase)
        self.redis.pexpire(key, self.ttl_ms)
""",
        """
        while not self.redis.set(key, owner, nx=True, px=self.ttl_ms):
            self.pause(purchase)
""",
    )
    fault = "kill"

    def buy(self, purchase: Purchase) -> Receipt:
        key, owner = self.key(purchase), purchase.order
        while not self.redis.setnx(key, owner):
            self.pause(purchase)
        self.redis.pexpire(key, self.ttl_ms)
        try:
            with purchase.critical_section() as section:
                return self.sell(section)
        finally:
            self.release(key, owner)
