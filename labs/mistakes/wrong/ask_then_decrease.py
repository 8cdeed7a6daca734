"""Ask for the counter, then decrease it."""

from __future__ import annotations

from app.contract.outcomes import Outcome
from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from app.sales.stock import sending
from labs.mistakes.guard import Mistake


class AskThenDecrease(Mistake):
    """DECR loses no update, but two purchases have asked before one of them decreases."""

    name = "ask-then-decrease"
    promise = Promise.EXACT
    description = "GET, and DECR if something is left: no lock, for DECR is atomic."
    found = "https://github.com/vendurehq/vendure/pull/4930, https://github.com/mighty840/kitchenasty/issues/55"
    mend = (
        """
        with purchase.critical_section():
            if int(self.redis.get(keys.stock) or 0) <= 0:
                return Receipt(Outcome.SOLD_OUT, self.name, stock=0)
            with sending(), self.redis.pipeline() as pipe:
                pipe.decr(keys.stock)
                pipe.incr(keys.lucky)
                pipe.rpush(keys.orders, purchase.entry())
                left, *_ = pipe.execute()
            return Receipt(Outcome.SOLD, self.name, order=purchase.order, stock=left)
""",
        """
        with purchase.critical_section() as section:
            return self.stock(purchase.item).sell(section)  # one script asks and decreases
""",
    )

    def buy(self, purchase: Purchase) -> Receipt:
        keys = self.shop.sale.keys_of[purchase.item]
        with purchase.critical_section():
            if int(self.redis.get(keys.stock) or 0) <= 0:
                return Receipt(Outcome.SOLD_OUT, self.name, stock=0)
            with sending(), self.redis.pipeline() as pipe:
                pipe.decr(keys.stock)
                pipe.incr(keys.lucky)
                pipe.rpush(keys.orders, purchase.entry())
                left, *_ = pipe.execute()
            return Receipt(Outcome.SOLD, self.name, order=purchase.order, stock=left)
