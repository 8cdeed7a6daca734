"""The etcd mutex around one purchase, for the guards that use it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from app.sales.purchase import LossCause, Purchase
from app.sales.tokens import Token
from lock import LockLost

logger = logging.getLogger(__name__)


class Releasable(Protocol):
    """Whatever is held."""

    def release(self) -> None: ...


class Held(Releasable, Protocol):
    """A hold of a mutex, or a turn in one."""

    @property
    def token(self) -> Token: ...

    def ensure(self) -> None: ...


HeldT_co = TypeVar("HeldT_co", bound=Held, covariant=True)


class Acquirable(Protocol[HeldT_co]):
    """A mutex."""

    def acquire(self, *, timeout: float | None = None) -> HeldT_co: ...


@contextmanager
def holding(mutex: Acquirable[HeldT_co], purchase: Purchase, *, timeout: float) -> Iterator[HeldT_co]:
    """Wait for the mutex, and be inside the critical section while it is held.

    Raises:
        LockError: the mutex was not acquired.
    """
    hold = mutex.acquire(timeout=timeout)
    try:
        with purchase.critical_section(token=hold.token):
            yield hold
    finally:
        release(hold, purchase)


def release(hold: Releasable, purchase: Purchase) -> None:
    """Let go, whatever comes of it: how the purchase ended is decided by its write, which is over.

    If the lock turns out to be lost only here, that is noted on the purchase and changes nothing.
    """
    try:
        hold.release()
    except LockLost as error:
        purchase.loss = LossCause.RELEASED_LATE
        logger.warning("order %s: %s", purchase.order, error)
