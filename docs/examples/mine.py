"""Nothing keeps two buyers apart yet."""

from app.guards.base import Guard, Promise
from app.sales.purchase import Purchase, Receipt


class MyGuard(Guard):
    """All buyers read the same stock."""

    name = "mine"
    promise = Promise.EXACT
    description = "Nothing yet."

    def buy(self, purchase: Purchase) -> Receipt:
        stock = self.stock(purchase.item)
        with purchase.critical_section() as section:
            reading = stock.read(section)
            if reading.receipt is not None:  # sold out
                return reading.receipt
            section.think()
            return stock.write(section, reading)
