"""A lock inside each process: right on one instance, useless on two."""

from __future__ import annotations

import threading
import time

from app.guards.base import Guard, Promise, Tools, read_modify_write
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import GaveUp

SLICE_S = 1.0  # how long nobody who waits is told that the instance shuts down


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
        self._acquire(lock)
        try:
            with purchase.critical_section():
                return read_modify_write(self.inventory(purchase), purchase)
        finally:
            lock.release()

    def _acquire(self, lock: threading.Lock) -> None:
        until = time.monotonic() + self.tools.lock_timeout
        while True:
            self.tools.sessions.check_open()
            left = until - time.monotonic()
            if lock.acquire(timeout=max(min(left, SLICE_S), 0.0)):
                return
            if left <= SLICE_S:
                raise GaveUp(f"the thread lock was not free within {self.tools.lock_timeout:g} s")
