"""A mutex that a thread may acquire again while it holds it.

Entering again costs nothing in etcd, and the token stays the same: what the outer scope has written, the inner one may
go on writing, and the other way round. (A new token for each entry would fence off the outer scope, as in Redisson.)

Error handling: as `Mutex`. A thread whose hold is lost gets `LockLost` where it enters again.
"""

from __future__ import annotations

import threading
import weakref
from functools import partial

from lock.errors import NotHeld
from lock.queue.ticket import Ticket
from lock.queue.wait_queue import WaitQueue
from lock.recipes.acquisition import Acquisition
from lock.recipes.hold import Hold
from lock.recipes.mutex import Mutex
from lock.runtime.clock import deadline
from lock.session.session import Session


class ReentrantHold(Hold):
    """The lock, held by one thread, which has to release it as often as it has entered.

    Attributes:
        entries: how often it has entered and not yet left; 0 when it is released.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        queue: WaitQueue,
        ticket: Ticket,
        token: int,
        *,
        max_hold: float | None = None,
    ) -> None:
        super().__init__(session, name, queue, ticket, token, max_hold=max_hold)
        self.entries = 1
        self._thread = threading.current_thread()

    def enter(self) -> None:
        """Count another entry of the thread that holds.

        Raises:
            LockLost: the hold is lost, so its thread has to leave before it can acquire anew.
        """
        self.ensure()
        self.entries += 1

    def release(self) -> None:
        """Leave once; the last time frees the lock, and raises as `Hold.release`.

        Raises:
            NotHeld: another thread holds it, or it was released before.
        """
        self._session.client.check_process()
        if threading.current_thread() is not self._thread:
            raise NotHeld(
                f"lock {self.name!r} (key {self.key!r}) is held by thread {self._thread.name}: "
                f"{threading.current_thread().name} cannot release it"
            )
        if self.entries > 1:
            self.entries -= 1
            return
        self.entries = 0
        super().release()


class ReentrantMutex(Mutex):
    """One name, locked by any thread as often as it likes; one object per name and process, shared by the threads.

    Arguments and errors are those of `Mutex`.
    """

    def __init__(self, session: Session, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(session, name, max_hold=max_hold)
        self._own = threading.local()

    def acquire(self, *, timeout: float | None = None) -> ReentrantHold:
        """Enter again if this thread holds the lock, else wait for it.

        Raises:
            LockLost: this thread held the lock and has lost it.
        """
        until = deadline(timeout)
        return self._enter_again() or self._remember(self._wait(self.new_acquisition(), until))

    def try_acquire(self) -> ReentrantHold | None:
        """Enter again, or take the lock if it is free at this moment; else None. Errors are those of `acquire`."""
        hold = self._enter_again() or self.new_acquisition().attempt()
        return hold and self._remember(hold)

    def new_acquisition(self) -> Acquisition[ReentrantHold]:
        """One attempt, not begun."""
        return Acquisition(self.session, self.name, self._prefix, partial(ReentrantHold, max_hold=self.max_hold))

    def _enter_again(self) -> ReentrantHold | None:
        hold: ReentrantHold | None = getattr(self._own, "hold", lambda: None)()
        if hold is None or hold.entries == 0:
            return None
        hold.enter()
        return hold

    def _remember(self, hold: ReentrantHold) -> ReentrantHold:
        self._own.hold = weakref.ref(hold)  # whoever holds has it; else an interrupted release would leave it held
        return hold
