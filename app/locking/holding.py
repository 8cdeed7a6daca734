"""Hold a lock around one purchase."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.sales.purchase import LossCause, Purchase
from app.sales.refusals import GaveUp
from lock import CohortMutex, Hold, LockLost, MultiHold, Mutex, Turn

logger = logging.getLogger(__name__)

_SLICE_S = 1.0  # the longest a waiter for a thread lock takes to notice that the instance shuts down


@contextmanager
def holding(mutex: Mutex | CohortMutex, purchase: Purchase, *, timeout: float) -> Iterator[Hold | Turn]:
    """Wait for the mutex and enter the critical section; raises `LockError`."""
    hold = mutex.acquire(timeout=timeout)
    try:
        with purchase.critical_section(token=hold.token):
            yield hold
    finally:
        release(hold, purchase)


@contextmanager
def waiting_in_line(line: threading.Lock, *, timeout: float, check: Callable[[], object]) -> Iterator[None]:
    """Hold a lock of this process; `check` raises when the instance shuts down, and ends the wait."""
    until = time.monotonic() + timeout
    while check() or not line.acquire(timeout=max(min(until - time.monotonic(), _SLICE_S), 0.0)):
        if time.monotonic() >= until:
            raise GaveUp(f"the thread lock was not free within {timeout:g} s")
    try:
        yield
    finally:
        line.release()


def release(hold: Hold | Turn | MultiHold, purchase: Purchase) -> None:
    """Release. A loss found here is noted on the purchase and does not change its outcome: the write is over."""
    try:
        hold.release()
    except LockLost as error:
        purchase.loss = LossCause.RELEASED_LATE
        logger.warning("order %s: %s", purchase.order, error)
