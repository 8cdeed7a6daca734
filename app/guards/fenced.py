"""The purchase under a lock in etcd whose token Redis checks, for the guards that do it one purchase at a time."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from app.guards.short_cut import SoldOutGuard
from app.locking.holding import Acquirable, Held, holding
from app.sales.purchase import Outcome, Purchase, Receipt


class Cancellable(Acquirable[Held], Protocol):
    """A mutex that all threads of the instance share."""

    def cancel(self) -> None: ...


class FencedGuard(SoldOutGuard):
    """Read and write carry the fencing token: whoever outlives his hold is refused by Redis.

    Who finds the item sold out wakes everybody of this instance who waits for it: they need no lock to be told so.
    """

    @abstractmethod
    def mutex(self, item: str) -> Cancellable:
        """One object for all threads, or `cancel` would not reach those who wait."""

    def buy_locked(self, purchase: Purchase, *, timeout: float) -> Receipt:
        inventory, mutex = self.inventory(purchase), self.mutex(purchase.item)
        with holding(mutex, purchase, timeout=timeout) as hold:
            reading = inventory.fenced_read(purchase)
            if reading.receipt is not None:
                if reading.receipt.outcome is Outcome.SOLD_OUT:
                    mutex.cancel()
                return reading.receipt
            purchase.think()
            hold.ensure()
            return inventory.fenced_write(purchase, reading)
