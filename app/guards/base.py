"""The part of a purchase that all guards share; the lock is in each guard's `buy`.

An item that is sold out is refused without the lock; requests that wait for it in vain are woken; and
each has a time limit. `Stock` keeps the first answer to an idempotency key; `Section` takes the times.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Protocol

from app.config.settings import Settings
from app.contract.outcomes import LossCause, Outcome, Promise
from app.locking.etcd_sessions import EtcdSessions
from app.sales.purchase import Purchase, Receipt, Section
from app.sales.redis_client import answered_until
from app.sales.sale import Sale
from app.sales.stock import Stock
from lock import CohortMutex, Hold, LockCancelled, LockLost, LockTimeout, Mutex, Turn

__all__ = ["Guard", "Parts", "Promise", "release"]

logger = logging.getLogger(__name__)

SLICE_S = 1.0  # the longest a waiter for a thread lock takes to notice that the instance shuts down


class Parts(Protocol):
    """What a guard may use of `app.services.Services`."""

    settings: Settings
    sessions: EtcdSessions
    sale: Sale
    stocks: dict[str, Stock]


class Guard(ABC):
    """One way to make the same purchase.

    Attributes:
        name: what buyers ask for; part of the API.
        promise: see `Promise`.
        description: one sentence for people.
        sort_key: its place in lists; those with the same are sorted by name.
        loses_lock: whether it has a lock that can be lost, so that faults are tried on it.
        checks_sold_out: whether a purchase may learn without the lock that the item is sold out.
    """

    name: ClassVar[str]
    promise: ClassVar[Promise]
    description: ClassVar[str]
    sort_key: ClassVar[int] = 1000
    loses_lock: ClassVar[bool] = False
    checks_sold_out: ClassVar[bool] = False

    def __init__(self, shop: Parts) -> None:
        self.shop = shop
        self.sessions = shop.sessions
        self.stock = shop.stocks.__getitem__  # the stock of an item
        self.lock_timeout = shop.settings.lock_timeout

    @abstractmethod
    def buy(self, purchase: Purchase) -> Receipt:
        """Buy under the guard's lock; raises one of `app.sales.refusals.EXPECTED`, or `KeyReused`."""

    def serve(self, purchase: Purchase) -> Receipt:
        """`buy`, unless the item is known to be sold out: before the lock, and when a wait ends early."""
        with answered_until(purchase.began + self.lock_timeout + purchase.think_s):
            while True:
                if self.checks_sold_out and (receipt := self.stock(purchase.item).known_sold_out(purchase)):
                    return receipt
                try:
                    return self.buy(purchase)
                except LockCancelled:
                    continue  # another purchase found nothing left; in a drain, `buy` refuses before it waits

    def time_left(self, purchase: Purchase) -> float:
        """Seconds that the purchase may still wait."""
        return max(purchase.began + self.lock_timeout - time.monotonic(), 0.0)

    @contextmanager
    def locked(self, mutex: Mutex | CohortMutex, purchase: Purchase) -> Iterator[Section]:
        """Wait for the mutex and enter the critical section; raises `LockError`."""
        hold = mutex.acquire(timeout=self.time_left(purchase))
        try:
            with purchase.critical_section(hold) as section:
                yield section
                is_sold_out = section.receipt is not None and section.receipt.outcome is Outcome.SOLD_OUT
                if is_sold_out and self.stock(purchase.item).note_sold_out(section):
                    mutex.cancel()  # the waiters need no lock for that answer
        finally:
            release(hold, purchase)

    @contextmanager
    def in_line(self, line: threading.Lock, purchase: Purchase) -> Iterator[None]:
        """Hold a lock of this process; a shutdown ends the wait."""
        self.sessions.check_open()
        while not line.acquire(timeout=min(self.time_left(purchase), SLICE_S)):
            self.sessions.check_open()
            if not self.time_left(purchase):
                raise LockTimeout(f"the thread lock was not free within {self.lock_timeout:g} s")
        try:
            yield
        finally:
            line.release()


def release(hold: Hold | Turn, purchase: Purchase) -> None:
    """Release. A loss found here is noted on the purchase and does not change its outcome: the write is over."""
    try:
        hold.release()
    except LockLost as error:
        purchase.loss = LossCause.RELEASED_LATE
        logger.warning("order %s: %s", purchase.order, error)
