"""A key in Redis says that somebody is inside."""

import time

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt
from lock import LockTimeout


class HomemadeGuard(Guard):
    """The request that sets the key is inside. If it dies there, the key is gone after a second."""

    name = "homemade"
    promise = Promise.EXACT
    description = "SET NX with an expiry, and DEL."

    def buy(self, purchase: Purchase) -> Receipt:
        redis, stock = self.shop.sale.client, self.stock(purchase.item)
        while not redis.set("homemade", purchase.buyer, nx=True, px=1000):
            if not self.time_left(purchase):
                raise LockTimeout("the key was never free")
            time.sleep(0.1)
        try:
            with purchase.critical_section() as section:
                reading = stock.read(section)
                if reading.receipt is not None:
                    return reading.receipt
                section.think()
                return stock.write(section, reading)
        finally:
            redis.delete("homemade")
