"""A turn of a hold that the callers of a process share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from lock.core.queue import Ticket
from lock.errors import NotHeld
from lock.recipes.hold import HeldKey

if TYPE_CHECKING:
    from lock.core.cohort import CohortTurn
    from lock.recipes.cohort import CohortMutex


class CohortToken(NamedTuple):
    """A fencing token for one turn of one hold; later turns and later holds compare greater.

    A plain token n, of a `Mutex` of the same name, compares as (n, 0).
    """

    create_revision: int
    turn: int

    def __lt__(self, other: object) -> bool:
        return tuple.__lt__(self, _pair(other))

    def __le__(self, other: object) -> bool:
        return tuple.__le__(self, _pair(other))

    def __gt__(self, other: object) -> bool:
        return tuple.__gt__(self, _pair(other))

    def __ge__(self, other: object) -> bool:
        return tuple.__ge__(self, _pair(other))


class Turn(HeldKey):
    """One caller's turn in a hold of its process; made by `CohortMutex`. Leaving ``with`` ends it.

    Attributes:
        name: the mutex's name.
        key: the key in etcd that holds, the same for all turns of one hold.
        token: the fencing token, a `CohortToken`: it rises from turn to turn and from hold to hold.
        released: whether it was released.
    """

    def __init__(self, mutex: CohortMutex, turn: CohortTurn) -> None:
        ticket = turn.ticket
        assert ticket is not None
        super().__init__(mutex.session, mutex.name, ticket)
        self._mutex = mutex
        self._turn = turn
        self._lost: threading.Event | None = None
        self.token = CohortToken(self._create_revision, turn.number)

    @property
    def lost(self) -> threading.Event:
        """Set as soon as it is known that the lock is not ours any more; what comes after the turn is not its loss."""
        self._session.client.check_process()
        if self._lost is None:
            self._lost = threading.Event() if self.released else self._engine.lost_event(self._ticket)
        return self._lost

    def _end(self, owner: object) -> Ticket | None:
        self._session.client.check_process()
        if self.released:
            raise NotHeld(f"this turn of lock {self.name!r} was ended before")
        self._forget()
        ticket: Ticket | None = self._engine.tell_here(self._turn.end)
        return ticket

    def _give_up(self) -> None:
        if not self.released:
            self._forget()
            self._engine.note(self._turn.leave)

    def _fence(self, moment: float) -> None:
        self._turn.fence(moment)

    def _go_on(self) -> None:
        if self._mutex.together:
            self._mutex.stay_away()


def _pair(token: object) -> tuple[int, ...]:
    return (token, 0) if isinstance(token, int) else token  # type: ignore[return-value]
