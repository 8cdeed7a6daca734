"""A mutex that a thread may acquire again while it holds it.

Entering again costs nothing in etcd, and the token stays the same. (A new token for each entry would fence off the
outer scope, as in Redisson.) A thread whose hold is lost gets `LockLost` where it enters again.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from lock.errors import NotHeld
from lock.recipes.cancellation import CancelToken
from lock.recipes.hold import Hold
from lock.recipes.queued_lock import QueuedLock
from lock.runtime.execution import Execution
from lock.session.session import Session


class ReentrantHold(Hold):
    """The lock, held by one thread or task, which has to release it as often as it has entered.

    Attributes:
        entries: how often it has entered and not yet left; 0 when it is released.
    """

    entries = 1
    owner: object = None  # the thread or task that alone may release it

    async def releasing(self, execution: Execution) -> None:
        self._session.client.check_process()
        if execution.owner is not self.owner:
            raise NotHeld(
                f"lock {self.name!r} (key {self.key!r}) is held by thread {_name(self.owner)}: "
                f"{_name(execution.owner)} cannot release it"
            )
        if self.entries > 1:
            self.entries -= 1
            return
        self.entries = 0
        await super().releasing(execution)

    def drop(self) -> None:
        """For the recipes: take back an entry that came too late; the only one frees the lock."""
        if self.entries > 1:
            self.entries -= 1
        else:
            self.entries = 0
            super().drop()


class ReentrantMutex(QueuedLock[ReentrantHold]):
    """One name, locked by any thread as often as it likes; one object per name and process, shared by the threads.

    Arguments and errors are those of `Mutex`; and a thread that has lost its hold gets `LockLost` until it has left.
    """

    def __init__(self, session: Session, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(session, name, ReentrantHold, max_hold=max_hold)
        # Weak: the holder has it; else an interrupted release would leave it held.
        self._held: WeakValueDictionary[object, ReentrantHold] = WeakValueDictionary()

    async def acquiring(self, execution: Execution, until: float, cancel: CancelToken | None = None) -> ReentrantHold:
        again = self._enter_again(execution.owner)
        return again or self._remember(await super().acquiring(execution, until, cancel), execution.owner)

    async def attempting(self, execution: Execution) -> ReentrantHold | None:
        hold = self._enter_again(execution.owner) or await super().attempting(execution)
        return hold and self._remember(hold, execution.owner)

    def _enter_again(self, owner: object) -> ReentrantHold | None:
        hold = self._held.get(owner)
        if hold is None or hold.entries == 0:
            return None
        hold.ensure()  # if it is lost, the owner has to leave first
        hold.entries += 1
        return hold

    def _remember(self, hold: ReentrantHold, owner: object) -> ReentrantHold:
        hold.owner = owner
        self._held[owner] = hold
        return hold


def _name(owner: object) -> str:
    return owner.name if isinstance(owner, threading.Thread) else str(owner)
