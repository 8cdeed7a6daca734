"""Look whether the lock is free, then take it."""

from __future__ import annotations

from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from labs.mistakes.guard import Mistake


class CheckThenSet(Mistake):
    """Two purchases look before one of them has written."""

    name = "check-then-set"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "EXISTS, then SET."
    found = "https://github.com/cameronmaske/celery-once/issues/7, https://github.com/songkick/mega_mutex/pull/6"
    mend = (
        """
        while self.redis.exists(key):
            self.pause(purchase)
        self.redis.set(key, owner, px=self.ttl_ms)
""",
        """
        while not self.redis.set(key, owner, nx=True, px=self.ttl_ms):
            self.pause(purchase)
""",
    )

    def buy(self, purchase: Purchase) -> Receipt:
        key, owner = self.key(purchase), purchase.order
        while self.redis.exists(key):
            self.pause(purchase)
        self.redis.set(key, owner, px=self.ttl_ms)
        try:
            with purchase.critical_section() as section:
                return self.sell(section)
        finally:
            self.release(key, owner)
