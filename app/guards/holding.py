"""The etcd mutex around one purchase, for the guards that use it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from app.guards.base import Tools
from app.purchase import LossCause, Purchase
from lock import Hold, LockLost

logger = logging.getLogger(__name__)


@contextmanager
def holding(tools: Tools, purchase: Purchase) -> Iterator[Hold]:
    """Wait for the mutex, and be inside the critical section while it is held.

    How the purchase ended is decided by its write. If the lock turns out to be lost only when it is released, that is
    noted on the purchase and changes nothing.

    Raises:
        LockError: the mutex was not acquired.
    """
    hold = tools.coordination.mutex().acquire(timeout=tools.lock_timeout)
    try:
        with purchase.inside(token=hold.token):
            yield hold
    finally:
        try:
            hold.release()
        except LockLost as error:
            purchase.loss = LossCause.RELEASED_LATE
            logger.warning("order %s: %s", purchase.order, error)
