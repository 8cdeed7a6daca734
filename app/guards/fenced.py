"""The purchase under a lock in etcd whose token Redis checks, for the guards that do it one purchase at a time."""

from __future__ import annotations

import time
from abc import abstractmethod
from contextlib import suppress
from typing import Protocol

from app.guards.base import Guard
from app.guards.holding import Acquirable, Held, holding
from app.inventory import Inventory
from app.purchase import Outcome, Purchase, Receipt
from lock import LockCancelled


class Cancellable(Acquirable[Held], Protocol):
    """A mutex that all threads of the instance share."""

    def cancel(self) -> None: ...


class FencedGuard(Guard):
    """Read and write carry the fencing token: whoever outlives his hold is refused by Redis.

    Who finds the item sold out wakes everybody of this instance who waits for it: they need no lock to be told so.
    """

    @abstractmethod
    def mutex(self, item: str) -> Cancellable:
        """One object for all threads, or `cancel` would not reach those who wait."""

    def buy(self, purchase: Purchase) -> Receipt:
        inventory, until = self.inventory(purchase), time.monotonic() + self.tools.lock_timeout
        while True:
            sold_out = inventory.short_cut(purchase)
            if sold_out is not None:
                return sold_out
            mutex = self.mutex(purchase.item)
            with suppress(LockCancelled):  # if it was because the instance shuts down, there is no session any more
                return _locked(mutex, inventory, purchase, max(until - time.monotonic(), 0.0))


def _locked(mutex: Cancellable, inventory: Inventory, purchase: Purchase, timeout: float) -> Receipt:
    with holding(mutex, purchase, timeout=timeout) as hold:
        reading = inventory.fenced_read(purchase)
        if reading.receipt is not None:
            if reading.receipt.outcome is Outcome.SOLD_OUT:
                mutex.cancel()
            return reading.receipt
        purchase.think()
        hold.ensure()
        return inventory.fenced_write(purchase, reading)
