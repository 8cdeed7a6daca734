"""Decrease the stock, then write the order."""

from __future__ import annotations

from app.contract.outcomes import Outcome
from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from app.sales.stock import sending
from labs.mistakes.guard import Mistake


class DecreaseThenOrder(Mistake):
    """It never oversells. A purchase that dies between the two leaves an item that is gone, and that nobody has."""

    name = "decrease-then-order"
    promise = Promise.EXACT
    description = "DECR, and then the order: no lock, for DECR tells who was too late."
    found = "https://github.com/haopengmai/dianping/issues/1, https://github.com/bootsrc/jseckill/issues/19"
    mend = (
        """
        with purchase.critical_section():
            with sending():
                left = self.redis.decr(keys.stock)
            if left < 0:
                self.redis.incr(keys.stock)
                return Receipt(Outcome.SOLD_OUT, self.name, stock=0)
            with sending(), self.redis.pipeline() as pipe:
                pipe.incr(keys.lucky)
                pipe.rpush(keys.orders, purchase.entry())
                pipe.execute()
            return Receipt(Outcome.SOLD, self.name, order=purchase.order, stock=left)
""",
        """
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)  # one script decreases and writes the order
""",
    )
    items, fault = 2, "kill"

    def buy(self, purchase: Purchase) -> Receipt:
        keys = self.shop.sale.keys_of[purchase.item]
        with purchase.critical_section():
            with sending():
                left = self.redis.decr(keys.stock)
            if left < 0:
                self.redis.incr(keys.stock)
                return Receipt(Outcome.SOLD_OUT, self.name, stock=0)
            with sending(), self.redis.pipeline() as pipe:
                pipe.incr(keys.lucky)
                pipe.rpush(keys.orders, purchase.entry())
                pipe.execute()
            return Receipt(Outcome.SOLD, self.name, order=purchase.order, stock=left)
