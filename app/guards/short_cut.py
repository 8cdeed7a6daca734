"""Sold out without the lock, for the guards that may say so."""

from __future__ import annotations

import time
from abc import abstractmethod
from contextlib import suppress

from app.guards.base import Guard
from app.sales.purchase import Purchase, Receipt
from lock import LockCancelled


class SoldOutGuard(Guard):
    """Needs no lock to say that an item is sold out which was seen so under the lock: see `app.sales.sold_out`.

    Whoever waits for the lock may be woken to be told so; who was woken for nothing waits again, in the time he has.
    """

    @abstractmethod
    def buy_locked(self, purchase: Purchase, *, timeout: float) -> Receipt:
        """Wait for the lock, for `timeout` seconds at most, and buy.

        Raises:
            LockCancelled: the wait was ended from outside.
        """

    def buy(self, purchase: Purchase) -> Receipt:
        inventory, until = self.inventory(purchase), time.monotonic() + self.tools.lock_timeout
        while True:
            sold_out = inventory.sold_out_check.take(purchase)
            if sold_out is not None:
                return sold_out
            with suppress(LockCancelled):  # if it was because the instance shuts down, there is no session any more
                return self.buy_locked(purchase, timeout=max(until - time.monotonic(), 0.0))
