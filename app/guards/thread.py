"""A lock inside each process: right on one instance, useless on two."""

from __future__ import annotations

import threading

from app.guards.base import Guard, Promise, Tools, read_modify_write
from app.purchase import Purchase, Receipt
from app.refusals import GaveUp


class ThreadGuard(Guard):
    """Threads of one process take turns; the other instance does not know of them."""

    name = "thread"
    promise = Promise.NONE
    description = "A threading.Lock in each instance: the instances still race each other. It oversells."

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._locks = {item: threading.Lock() for item in tools.inventories}

    def buy(self, purchase: Purchase) -> Receipt:
        lock = self._locks[purchase.item]
        if not lock.acquire(timeout=self.tools.lock_timeout):
            raise GaveUp(f"the thread lock was not free within {self.tools.lock_timeout:g} s")
        try:
            with purchase.inside():
                return read_modify_write(self.inventory(purchase), purchase)
        finally:
            lock.release()
