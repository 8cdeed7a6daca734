"""A mutex that only one process knows."""

from __future__ import annotations

import threading

from app.guards.base import Parts, Promise
from app.sales.purchase import Purchase, Receipt
from labs.mistakes.guard import Mistake


class OneProcess(Mistake):
    """Right as long as there is one process: with gunicorn's second worker there are two mutexes."""

    name = "one-process"
    promise = Promise.EXACT_UNTIL_PAUSED
    description = "A threading.Lock."
    found = "https://github.com/SynoCommunity/spkrepo/pull/100, https://github.com/microsoft/Biodiversity/pull/208"
    mend = (
        "with self.in_line(self._lock, purchase), purchase.critical_section() as section:",
        "with self.locked(self.sessions.mutex(purchase.item), purchase) as section:",
    )

    def __init__(self, shop: Parts) -> None:
        super().__init__(shop)
        self._lock = threading.Lock()

    def buy(self, purchase: Purchase) -> Receipt:
        with self.in_line(self._lock, purchase), purchase.critical_section() as section:
            return self.sell(section)
