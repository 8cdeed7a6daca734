"""A mutex that a thread may acquire again while it holds it.

Entering again costs nothing in etcd, and the token stays the same. (A new token for each entry would fence off the
outer scope, as in Redisson.) A thread whose hold is lost gets `LockLost` if it enters again.
"""

import threading
from collections.abc import Sequence
from typing import Any
from weakref import ref

from lock.core.acquisition import Acquisition
from lock.core.queue import Ticket
from lock.errors import NotHeld
from lock.recipes.attempt import Attempt
from lock.recipes.hold import Hold
from lock.recipes.queued_lock import QueuedLock
from lock.session.engine import Steps
from lock.session.session import Session


class ReentrantHold(Hold):
    """The lock, held by one thread or task, which has to release it as often as it has entered.

    `entries` says how often it has entered and not yet left; 0 when it is released.
    """

    entries = 1
    owner: ref[Any]  # the thread or task that alone may release it

    def _end(self, owner: object) -> Sequence[Ticket]:
        self._client.check_process()
        if owner is not self.owner():
            raise NotHeld(
                f"lock {self.name!r} (key {self.key!r}) is held by {_name(self.owner())}: "
                f"{_name(owner)} cannot release it"
            )
        if self.entries > 1:
            self.entries -= 1
            return ()
        tickets = super()._end(owner)
        self.entries = 0
        return tickets

    def _give_up(self) -> None:
        if self.entries > 1:
            self.entries -= 1
        else:
            super()._give_up()
            self.entries = 0


class ReentrantMutex(QueuedLock[ReentrantHold]):
    """One name, locked by any thread as often as it likes; one object per name and process, shared by the threads.

    Arguments and errors are those of `Mutex`; and a thread that has lost its hold gets `LockLost` until it has left.
    """

    def __init__(self, session: Session, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(session, name, ReentrantHold, max_hold=max_hold)

    def _steps(self, attempt: Attempt, until: float, **options: Any) -> Steps[ReentrantHold | None]:
        holds = self._held_by(attempt.owner)
        if not holds:
            return (yield from super()._steps(attempt, until, **options))
        hold = holds[0]
        hold.ensure()  # if it is lost, the owner has to leave first
        hold.entries += 1
        return hold

    def _left_by(self, owner: object) -> ReentrantHold:
        """The hold of this owner; where there is none to ask, as a task was dropped with its loop, the one there is."""
        return self._entered[-1] if owner is None and self._entered else self._last_of(owner)

    def _finish(self, acquisition: Acquisition, owner: object) -> ReentrantHold:
        hold = super()._finish(acquisition, owner)
        hold.owner = ref(owner)
        return hold


def _name(owner: object) -> str:
    return f"thread {owner.name}" if isinstance(owner, threading.Thread) else str(owner)
