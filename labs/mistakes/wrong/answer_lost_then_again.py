"""If no answer came, buy once more."""

from __future__ import annotations

from app.guards.base import Promise
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import InDoubt
from labs.mistakes.guard import Mistake


class AnswerLostThenAgain(Mistake):
    """The script was run, and its answer was lost: the buyer gets a second item."""

    name = "answer-lost-then-again"
    promise = Promise.EXACT
    description = "One atomic script, by a client that repeats what was not answered."
    found = "https://github.com/redis/jedis/issues/3187, https://github.com/redis/redis-py/issues/261"
    mend = (
        """
        stock = self.stock(purchase.item)
        with purchase.critical_section() as section:
""",
        """
        stock = self.stock(purchase.item)
        purchase.key = purchase.key or purchase.order  # the script answers this key as it did before
        with purchase.critical_section() as section:
""",
    )
    items, fault = 3, "lost"

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        with purchase.critical_section() as section:
            try:
                return stock.sell(section)
            except InDoubt:
                return stock.sell(section)
