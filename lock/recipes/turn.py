"""One thread's turn in a hold that the threads of a process share."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from lock.errors import LockError, NotHeld
from lock.etcd.client import Client
from lock.recipes.hold import Hold, Releasable
from lock.runtime.interrupts import run_detached, run_uninterrupted


class CohortToken(NamedTuple):
    """A fencing token for one turn of one hold; later turns and later holds compare greater."""

    create_revision: int
    turn: int


class Turn(Releasable):
    """One thread's turn in a hold of its process; made by `CohortMutex`. Leaving ``with`` ends it.

    Attributes:
        name: the mutex's name.
        key: the key in etcd that holds, the same for all turns of one hold.
        token: the fencing token, a `CohortToken`: it rises from turn to turn and from hold to hold.
        lost: a threading.Event, set as soon as it is known that the lock is not ours any more.
        released: whether it was released.
    """

    def __init__(self, hold: Hold, token: CohortToken, client: Client, end: Callable[[Turn], None]) -> None:
        self.name = hold.name
        self.key = hold.key
        self.token = token
        self.lost = hold.lost
        self.released = False
        self._hold = hold
        self._client = client
        self._end = end

    def remaining(self) -> float:
        """Seconds for which the lock is surely ours; 0.0 once it is lost."""
        left = self._hold.remaining()
        return 0.0 if self.released else left

    def ensure(self) -> None:
        """As `Hold.ensure`."""
        if self.released:
            raise NotHeld(f"this turn of lock {self.name!r} was ended before")
        self._hold.ensure()

    def on_lost(self, callback: Callable[[], object]) -> None:
        """As `Hold.on_lost`; of a hold with many turns every listener is told."""
        self._hold.on_lost(callback)

    def release(self) -> None:
        """End the turn; raises `NotHeld` if it was ended before, `LockLost` if the hold was found lost at its end."""
        self._client.check_process()
        run_uninterrupted(lambda: self._end(self))

    def __del__(self) -> None:
        if getattr(self, "released", True) or self._client.forked():
            return
        run_detached(partial(_release, self))
        warnings.warn(f"a turn of lock {self.name!r} was dropped without a release", ResourceWarning, stacklevel=2)


def _release(dropped: Turn) -> None:
    with contextlib.suppress(LockError):
        dropped.release()
