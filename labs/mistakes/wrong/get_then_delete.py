"""Look at the owner of the lock, then delete it."""

from __future__ import annotations

from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from labs.mistakes.guard import Mistake


class GetThenDelete(Mistake):
    """A client that repeats DEL deletes the lock of the next purchase, and lets a third one in."""

    name = "get-then-delete"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "GET, then DEL if it is ours, by a client that repeats what was not answered."
    found = "https://github.com/redis/redis-py/pull/1031, https://github.com/redis/redis-py/issues/977"
    mend = (
        """
            if self.redis.get(key) == owner:
                self.retry(self.redis.delete, key)
""",
        """
            self.release(key, owner)  # a script: DEL if GET is the owner, repeated as well
""",
    )
    buyers, items, fault, lost = 3, 2, "lost", ("DEL", "EVAL SCRIPT")

    def buy(self, purchase: Purchase) -> Receipt:
        key, owner = self.key(purchase), purchase.order
        while not self.redis.set(key, owner, nx=True, px=self.ttl_ms):
            self.pause(purchase)
        try:
            with purchase.critical_section() as section:
                return self.sell(section)
        finally:
            if self.redis.get(key) == owner:
                self.retry(self.redis.delete, key)
