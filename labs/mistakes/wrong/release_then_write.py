"""Release the lock before the write is committed."""

from __future__ import annotations

from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from labs.mistakes.guard import Mistake


class ReleaseThenWrite(Mistake):
    """The next purchase reads what is about to be overwritten."""

    name = "release-then-write"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "The lock is released when the code is done, and the transaction around it commits later."
    found = (
        "https://dev.to/manas_3dot14/eliminating-lost-update-anomalies-in-spring-boot-with-redlock-and-custom-aop-1b36"
    )
    mend = (
        """
            finally:
                self.release(key, owner)
            return reading.receipt or stock.write(section, reading)
""",
        """
                return reading.receipt or stock.write(section, reading)
            finally:
                self.release(key, owner)
""",
    )

    def buy(self, purchase: Purchase) -> Receipt:
        stock, key, owner = self.stock(purchase.item), self.key(purchase), purchase.order
        while not self.redis.set(key, owner, nx=True, px=self.ttl_ms):
            self.pause(purchase)
        with purchase.critical_section() as section:
            try:
                reading = stock.read(section)
            finally:
                self.release(key, owner)
            return reading.receipt or stock.write(section, reading)
