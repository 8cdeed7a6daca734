"""Nothing stands around the purchase: the baseline."""

from __future__ import annotations

from app.guards.base import Guard, Promise, read_modify_write
from app.sales.purchase import Purchase, Receipt


class NoGuard(Guard):
    """Read, think, write, while everybody else does the same."""

    name = "none"
    promise = Promise.NONE
    description = "No lock at all: two buyers read the same stock and both get the item. It oversells."

    def buy(self, purchase: Purchase) -> Receipt:
        with purchase.critical_section():
            return read_modify_write(self.inventory(purchase), purchase)
