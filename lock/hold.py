"""A lock that is held."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from types import TracebackType

from lock.errors import EtcdError, LockError, LockLost, NotHeld
from lock.session import Session
from lock.ticket import Ticket
from lock.wait_queue import WaitQueue

logger = logging.getLogger(__name__)


class Hold:
    """The lock, held; made by `Mutex`. Leaving ``with`` releases it.

    Attributes:
        name: the mutex's name.
        key: the key in etcd that holds.
        token: the fencing token, an int that rises with every hold of this name: the key's create revision. (Not the
            revision in the answer's header, which is higher after a wait, nor the lease id, which does not rise.)
        lost: a threading.Event, set as soon as it is known that the lock is not ours any more.
    """

    def __init__(self, session: Session, name: str, queue: WaitQueue, ticket: Ticket, token: int) -> None:
        self.name = name
        self.key = ticket.key
        self.token = token
        self.lost = ticket.lost
        self._session = session
        self._queue = queue
        self._ticket = ticket
        self._released = False

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.release()
        except LockError:
            if exc_type is None:  # the error of the body matters more
                raise

    def remaining(self) -> float:
        """Seconds for which the lock is surely ours unless somebody deletes its key; 0.0 once it is lost."""
        return 0.0 if self.lost.is_set() or self._released else self._session.remaining()

    def ensure(self) -> None:
        """Return if the lock is ours by all that is known here; that can change at once: hand the token to the
        resource.

        Raises:
            LockLost: it is not.
            NotHeld: it was released.
        """
        if self._released:
            raise NotHeld(f"lock {self.name!r} (key {self.key!r}) was released before")
        self._session.ensure()
        if self._ticket.failure is not None:
            raise LockLost(str(self._ticket.failure))

    def contended(self) -> bool:
        """Whether anybody waits behind, as far as this process knows; asks nobody."""
        return self._queue.length() > 1

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, from a thread of the session, when the lock is lost; at once if it is already."""
        self._ticket.on_lost(callback)

    def release(self) -> None:
        """Free the lock for the next one. Where etcd does not answer, the session's janitor goes on trying.

        Raises:
            NotHeld: it was released before.
            LockLost: the key was gone already, so the lock was not ours up to this moment.
        """
        self._session.client.check_process()
        if self._released:
            raise NotHeld(f"lock {self.name!r} (key {self.key!r}) was released before")
        self._released = True
        self._queue.strike(self._ticket)
        failure = self._ticket.failure
        try:
            there = self._session.client.delete(self.key, self.token)
        except EtcdError as error:
            logger.warning("lock %s: key %s is left to the janitor: %s", self.name, self.key, error)
            self._session.sweep(self.key, self.token)
        except BaseException:  # KeyboardInterrupt in the middle
            self._session.sweep(self.key, self.token)
            raise
        else:
            self._queue.deleted(self.key, self.token)
            if not there:
                raise LockLost(str(failure or f"key {self.key!r} was gone before it was released"))

    def __del__(self) -> None:
        if not getattr(self, "_released", True):
            self._released = True
            self._queue.strike(self._ticket)
            self._session.sweep(self.key, self.token)
            warnings.warn(f"lock {self.name!r} was dropped without a release", ResourceWarning, stacklevel=2)
