"""A lock that is held."""

from __future__ import annotations

import logging
import sched
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NoReturn, TypeVar

from lock.errors import EtcdError, HoldExpired, LockError, LockLost, NotHeld
from lock.etcd.requests import Created
from lock.model import KeyValue
from lock.queue.ticket import Ticket
from lock.queue.wait_queue import WaitQueue
from lock.runtime.clock import deadline, now
from lock.runtime.execution import BLOCKING, Execution, run_blocking
from lock.runtime.lost_event import LostEvent
from lock.session.session import Session

ReleasableT = TypeVar("ReleasableT", bound="Releasable")
HeldT = TypeVar("HeldT", bound="HeldKey")

logger = logging.getLogger(__name__)


class Lockable:
    """Something with `acquire`; ``with`` takes the result of that."""

    def __enter__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"a {kind} by itself is not a hold: write `with mutex.acquire(timeout=...) as hold:`")

    def __exit__(self, *exc_info: object) -> None:
        """``with`` asks for it before it enters."""


class Releasable(ABC):
    """What leaving ``with`` releases, unless it is lost before, of which `lost_event` tells."""

    def __init__(self, session: Session, lost_event: LostEvent) -> None:
        self._session = session
        self.lost_event = lost_event  # for the recipes
        self.lost = lost_event.lost
        self.released = False

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when the lock is lost, as `Session.on_lost` does; at once if it is already."""
        self._session.client.check_process()
        self.lost_event.on_lost(callback)

    @abstractmethod
    def release(self) -> None:
        """Give it back."""

    def __enter__(self: ReleasableT) -> ReleasableT:
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            self.release()
        except LockError:
            if exc_info[0] is None:  # the error of the body matters more
                raise


class Held(Releasable):
    """What threads and tasks hold alike."""

    def add_listener(self, listener: Callable[[], object]) -> None:
        """For the recipes: see `LostEvent.add_listener`."""
        self.lost_event.add_listener(listener)

    def release(self) -> None:
        """Free the lock for the next one; returns when etcd has deleted the key or the client's timeout is over.

        Where etcd does not answer, the session's janitor goes on trying. A next one of this process holds at once.

        Raises:
            NotHeld: it was released before.
            LockLost: the lock was lost before, so it was not ours up to this moment.
        """
        run_blocking(self.releasing, BLOCKING)

    @abstractmethod
    async def releasing(self, execution: Execution) -> None: ...


class HeldKey(Held):
    """A key that holds, made by a recipe. Leaving ``with`` releases it.

    Attributes:
        name: the lock's name.
        key: the key in etcd that holds.
        lost: a threading.Event, set as soon as it is known that the lock is not ours any more.
        released: whether it was released, or was dropped.
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
        self.name = name
        self.key = ticket.key
        self._create_revision = self._written_at = token  # its mod revision
        self._queue = queue
        self._ticket = ticket
        self._is_fence = False  # whether a transaction may rely on the key
        self._expires = deadline(max_hold)
        self._expire = partial(_expire, session, ticket, f"lock {name!r} was held for {max_hold} s, its max_hold")
        self._timer = None if max_hold is None else session.timers.set(self._expires, self._expire)
        super().__init__(session, ticket)  # last: what is not released, `__del__` deletes

    def remaining(self) -> float:
        """Seconds for which the lock is surely ours unless its key is deleted by hand; 0.0 once it is lost."""
        self._session.client.check_process()
        if self.lost.is_set() or self.released:
            return 0.0
        return min(self._session.remaining(), max(self._expires - now(), 0.0))

    def ensure(self) -> None:
        """Return if the lock is ours by all that is known here; that can change at once, so use the token.

        Raises:
            LockLost: it is not.
            HoldExpired: it was held for `max_hold`.
            NotHeld: it was released.
        """
        self._session.client.check_process()
        self._check_held()
        self._session.ensure()
        if now() >= self._expires:  # whether or not the timer has gone off in time
            self._expire()
        self._ticket.check()

    def is_owner(self) -> Created:
        """The condition that this hold still owns the lock, for an etcd transaction that writes what it protects.

        etcd checks it in the same step as the write. The next hold begins after the key of this one is deleted, even in
        this process: a late transaction fails.
        """
        self._session.client.check_process()
        self._is_fence = True
        return self._session.client.requests.created(self.key, self._create_revision)

    def contended(self) -> bool:
        """Whether there is a waiter, as far as this process knows; asks no server."""
        self._session.client.check_process()
        return self._queue.has_waiters(self._ticket.rule)

    async def releasing(self, execution: Execution) -> None:
        self._session.client.check_process()
        self._check_held()
        self.released = True
        there = True
        try:
            _leave(self._session, self._queue, self._ticket, self._timer)
            if not self._session.lost.is_set():  # else the key goes with the lease
                there = await self._delete(execution)
        except EtcdError as error:
            logger.warning("lock %s: key %s is left to the janitor: %s", self.name, self.key, error)
        except BaseException:  # KeyboardInterrupt in the middle
            self._delete_later()
            raise
        self._session.lease.check()
        self._ticket.check()
        if not there:
            raise LockLost(f"key {self.key!r} was gone before it was released")

    async def overwriting(self, execution: Execution, value: bytes) -> None:
        """For the recipes: the steps of giving the key another value; `LockLost` where the key is gone."""
        client, token = self._session.client, self._create_revision
        wanted = (token, value, self._session.lease_id)
        kv = KeyValue(self.key, b"", token, self._written_at, self._session.lease_id)
        while True:
            found = await client.ask(execution, client.requests.replace(kv, value))
            if found is None or found.create_revision != token:
                raise LockLost(f"key {self.key!r} was deleted from elsewhere: the lock is not ours any more")
            self._written_at = found.mod_revision
            if (found.create_revision, found.value, found.lease_id) == wanted:
                return
            # Another client has overwritten it, perhaps without our lease, or an earlier answer was lost.
            kv = found._replace(lease_id=self._session.lease_id)

    def _pass_on(self, kind: type[HeldT]) -> HeldT:
        """The same key as another hold, while this one counts as released."""
        other = kind.__new__(kind)
        other.__dict__.update(self.__dict__)
        self.released = True
        return other

    async def _delete(self, execution: Execution) -> bool:
        """Whether the key was there, as far as is known."""
        key, token = self.key, self._create_revision
        revision = self._ticket.sure(token)
        if self._is_fence:
            there = await self._session.janitor.delete(execution, key, revision)
            self._queue.hand_over(key, token)
            return there
        next_is_ours = self._queue.hand_over(key, token)
        return await self._session.janitor.delete(execution, key, revision, may_wait=next_is_ours)

    def _check_held(self) -> None:
        if self.released:
            raise NotHeld(f"lock {self.name!r} (key {self.key!r}) was released before")

    def drop(self) -> None:
        """For the recipes: have the janitor release it, if it is not released; takes no lock."""
        if not self.released:
            self.released = True
            self._delete_later()

    def _delete_later(self) -> None:
        leave = partial(_leave, self._session, self._queue, self._ticket, self._timer)
        self._session.janitor.delete_later(self.key, self._ticket.sure(self._create_revision), first=leave)

    def __del__(self) -> None:
        if getattr(self, "released", True) or self._session.client.forked():
            return
        # The garbage collector may run in a thread that is inside one of our locks: this takes none.
        HeldKey.drop(self)  # however often a thread has entered
        warnings.warn(f"lock {self.name!r} was dropped without a release", ResourceWarning, stacklevel=2)


class Hold(HeldKey):
    """A lock, held. Leaving ``with`` releases it.

    Attributes:
        token: the fencing token, an int that rises with every hold of this name: the key's create revision. (Not the
            revision in the answer's header, which is higher after a wait, nor the lease id, which does not rise.)
    """

    @property
    def token(self) -> int:
        return self._create_revision


# Not methods, for they would keep a hold alive that has been dropped everywhere else.


def _leave(session: Session, queue: WaitQueue, ticket: Ticket, timer: sched.Event | None) -> None:
    """Tell the hold nothing more."""
    queue.remove(ticket)
    if timer is not None:
        session.timers.cancel(timer)


def _expire(session: Session, ticket: Ticket, reason: str) -> None:
    """Give a hold up."""
    if ticket.fail(HoldExpired(f"{reason}: key {ticket.key!r} is given up")):
        session.janitor.delete_later(ticket.key, ticket.sure(ticket.token))
