"""A hold that the threads of a process share in turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lock.errors import NotHeld
from lock.recipes.hold import Hold, Releasable
from lock.runtime.clock import now
from lock.runtime.interrupts import InterruptSafeEvent
from lock.session.session import Session


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
        released: whether it was released.
    """

    def __init__(self, turns: Turns, number: int) -> None:
        super().__init__(turns.session)
        self._hold = turns.hold
        self.name = self._hold.name
        self.key = self._hold.key
        self.token = CohortToken(self._hold.token, number)
        self.turns = turns  # for `CohortMutex` alone

    @property
    def lost(self) -> Any:
        """A threading.Event, set as soon as it is known that the lock is not ours any more."""
        return self._hold.lost

    def add_listener(self, listener: Callable[[], object]) -> bool:
        return self._hold.add_listener(listener)

    def remaining(self) -> float:
        """Seconds for which the lock is surely ours; 0.0 once it is lost."""
        left = self._hold.remaining()
        return 0.0 if self.released else left

    def ensure(self) -> None:
        """As `Hold.ensure`."""
        self._session.client.check_process()
        if self.released:
            raise NotHeld(f"this turn of lock {self.name!r} was ended before")
        self._hold.ensure()

    def release(self) -> None:
        """End the turn; raises `NotHeld` if it was ended before, `LockLost` if the hold was found lost at its end."""
        super().release()

    def _release(self, owner: threading.Thread) -> None:
        self.turns.end(self)


@dataclass(eq=False)
class Waiter:
    """A thread that waits for its turn, or to be told to lead."""

    since: float = field(default_factory=now)
    called: InterruptSafeEvent = field(default_factory=InterruptSafeEvent)
    leads: bool = False
    cancelled: bool = False
    turn: Turn | None = None


class Turns:
    """One hold of a process, from its first turn until it is given up.

    `end` is what ends a turn, `batch` and `slice` are those of `CohortMutex`.
    """

    def __init__(self, session: Session, hold: Hold, end: Callable[[Turn], None], *, batch: int, slice: float) -> None:
        self.session = session
        self.hold = hold
        self.end = end
        self._batch = batch
        self._slice_ends = now() + slice
        self._taken = 0
        self.given_up = threading.Event()

    def next(self) -> Turn:
        """The next turn."""
        self._taken += 1
        return Turn(self, self._taken)

    def may_go_on(self) -> bool:
        """Whether there may be another turn: the lock is still ours, and no other process is due."""
        if self.hold.remaining() <= 0.0:
            return False
        contended = self.hold.contended()  # from the first hand-over on, the session follows the queue
        spent = self._taken >= self._batch or self.slice_left() <= 0.0
        return not (spent and contended)

    def slice_left(self) -> float:
        """Seconds until another process is due, if one waits."""
        return max(self._slice_ends - now(), 0.0)

    def give_up(self) -> None:
        """Release the hold; errors as `Hold.release`."""
        try:
            self.hold.release()
        finally:
            self.given_up.set()
