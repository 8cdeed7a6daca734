"""A mutex that threads and tasks of one process hand to each other without asking etcd.

Between processes a hold passes as with `Mutex`: first come, first served. Inside the process that holds it, it passes
from one to the next, in their order, for as long as no other process waits; then for at most `batch` turns or `slice`
seconds. So another process at the head of the queue waits for at most `slice`, one critical section and one hand-over.

The idea is that of cohort locks (D. Dice, V. Marathe, N. Shavit, "Lock Cohorting", PPoPP 2012). To keep what nobody
else wants is what lock managers of cluster file systems do. `lock.core.cohort` says how both work.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

from lock.core.cohort import Bounds, Cohort, CohortTurn
from lock.core.queue import Ticket
from lock.errors import LockCancelled, NotHeld
from lock.model import UNDECLARED
from lock.recipes.attempt import Attempt
from lock.recipes.hold import HeldKey
from lock.recipes.queued_lock import QueuedLock
from lock.runtime.callbacks import Loss
from lock.runtime.clock import check_number, is_whole, now
from lock.session.engine import Steps
from lock.session.session import Session


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
        key: the key in etcd that holds, the same for all turns of one hold.
        token: the fencing token, a `CohortToken`: it rises from turn to turn and from hold to hold.
    """

    def __init__(self, mutex: CohortMutex, turn: CohortTurn) -> None:
        ticket = turn.ticket
        assert ticket is not None
        super().__init__(mutex.session, mutex.name, ticket)
        self._mutex = mutex
        self._turn = turn
        self._loss: Loss | None = None
        self.token = CohortToken(self._create_revision, turn.number)

    def _find_loss(self) -> Loss:
        """The loss of this turn: what comes after it is not its loss."""
        if self._loss is None:
            self._loss = Loss() if self.released else super()._find_loss()
        return self._loss

    def _end(self, owner: object) -> Sequence[Ticket]:
        self._client.check_process()
        if self.released:
            raise NotHeld(f"this turn of lock {self.name!r} was ended before")
        self._forget()
        ticket: Ticket | None = self._engine.apply(self._turn.end)
        return () if ticket is None else (ticket,)

    def _give_up(self) -> None:
        if not self.released:
            self._forget()
            self._engine.note(self._turn.leave)

    def _fence(self, now: float) -> None:
        self._turn.fence(now)

    def _go_on(self) -> None:
        self._mutex._handed_on()


class CohortMutex(QueuedLock[Turn]):
    """One name, locked by the threads and tasks of this process in turns; one object per name and process, shared.

    Args:
        session: the process's session.
        name: as for `Mutex`.
        batch: turns of one hold after which it goes to another process, if one waits.
        slice: seconds of one hold after which it goes to another process, if one waits; a turn is not cut short.
        linger: seconds for which the process keeps a hold that nobody wants, so that the next acquisition asks no
            server. It ends if another process queues, and after a second at the latest. The price: an idle process
            that freezes, dies or is cut off blocks others for up to its TTL; and a client that only tries may never
            get the lock.

    Raises:
        ValueError: `batch` is less than 1, or `slice` or `linger` is negative; others as `Mutex`.
    """

    def __init__(
        self, session: Session, name: str, *, batch: int = 64, slice: float = 0.05, linger: float = 0.0
    ) -> None:
        check_number(batch, is_whole, "batch is a whole number of turns, 1 or more")
        check_number(slice, lambda seconds: seconds >= 0, "slice is seconds, 0 or more")
        check_number(linger, lambda seconds: seconds >= 0, "linger is seconds, 0 or more")
        super().__init__(session, name, Turn)
        bounds = Bounds(batch, slice, linger)
        self._cohort = Cohort(self._engine.core, name, self._prefix, bounds, session.client.timeout)

    def _steps(self, attempt: Attempt, until: float, **options: Any) -> Steps[Turn | None]:
        if self._cohort.is_lingering:
            turn = self._engine.apply(self._cohort.take, ref(attempt.owner), attempt.where)
            if turn is not None:
                return self._finish(turn, attempt.owner)
        return (yield from super()._steps(attempt, until, **options))

    def _start(self, attempt: Attempt, until: float, **options: Any) -> Any:
        options.update(value=self._engine.identity(UNDECLARED, attempt.thread))
        options.update(owner=ref(attempt.owner), where=attempt.where)
        turn = CohortTurn(self._cohort, attempt.began, deadline=until, **options)
        self._waiting.add(ref(turn))
        return turn

    def _finish(self, acquisition: Any, owner: object) -> Turn:
        return Turn(self, acquisition)

    def _handed_on(self) -> None:
        """A turn was ended, and the hold goes on."""

    def _cancel(self, acquisition: Any, failure: LockCancelled, now: float) -> None:
        acquisition.cancel(failure, now)


class YieldingCohortMutex(CohortMutex):
    """A `CohortMutex` whose threads leave the interpreter to the turns that follow, for as long as the hold lasts.

    While another process waits, the release of a turn returns only when the hold is given up, or after `slice`: for
    threads that have much to do after their turn, such as an answer to write.
    """

    def _finish(self, acquisition: Any, owner: object) -> Turn:
        if acquisition.number == 1:
            self._given_up = threading.Event()
            self._cohort.given_up = self._given_up.set
        return super()._finish(acquisition, owner)

    def _handed_on(self) -> None:
        if self._cohort.is_contended:
            self._given_up.wait(max(self._cohort.slice_ends - now(), 0.0))


def _pair(token: object) -> tuple[int, ...]:
    return (token, 0) if isinstance(token, int) else token  # type: ignore[return-value]
