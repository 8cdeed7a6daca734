"""The etcd mutex with the fencing token checked by the resource: exact, whatever happens to the holder."""

from __future__ import annotations

import time

from app.guards.base import Guard, Promise, Tools
from app.guards.holding import holding
from app.inventory import Inventory
from app.purchase import Outcome, Purchase, Receipt
from lock import LockCancelled, Mutex


class EtcdGuard(Guard):
    """One acquisition per purchase, first come first served over all instances.

    Who finds the item sold out wakes everybody of this instance who waits for it: they need no lock to be told so.
    """

    name = "etcd"
    promise = Promise.EXACT
    description = "An etcd mutex, and Redis refuses every fencing token lower than the highest it has seen. Exact."

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._mutexes: dict[str, Mutex] = {}

    def buy(self, purchase: Purchase) -> Receipt:
        inventory, until = self.inventory(purchase), time.monotonic() + self.tools.lock_timeout
        while True:
            sold_out = inventory.short_cut(purchase)
            if sold_out is not None:
                return sold_out
            mutex = self._mutex(purchase.item)
            try:
                receipt = self._locked(mutex, inventory, purchase, max(until - time.monotonic(), 0.0))
            except LockCancelled:
                continue  # if it was because the instance shuts down, there is no session any more
            if receipt.outcome is Outcome.SOLD_OUT:
                mutex.cancel()
            return receipt

    def _locked(self, mutex: Mutex, inventory: Inventory, purchase: Purchase, timeout: float) -> Receipt:
        with holding(mutex, purchase, timeout=timeout) as hold:
            reading = inventory.fenced_read(purchase)
            if reading.receipt is not None:
                return reading.receipt
            purchase.think()
            hold.ensure()
            return inventory.fenced_write(purchase, reading)

    def _mutex(self, item: str) -> Mutex:
        """One object for all threads, or `cancel` would not reach those who wait."""
        session, mutex = self.tools.coordination.session(), self._mutexes.get(item)
        if mutex is None or mutex.session is not session:
            mutex = self._mutexes[item] = self.tools.coordination.mutex(item)
        return mutex
