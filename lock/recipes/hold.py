"""A lock that is held.

The hold itself is a ticket of the session's core; these objects are what the program sees of it. When one of them is
dropped nothing is freed: the garbage collector runs whenever it likes, also while the body of a critical section does.
"""

import contextlib
import logging
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from lock.core.contention import Contention
from lock.core.queue import Ticket
from lock.errors import LockError, LockLost, NotHeld
from lock.etcd.client import Client
from lock.etcd.requests import Created
from lock.etcd.transport import run_steps
from lock.runtime.callbacks import Loss, check_callback
from lock.runtime.clock import now
from lock.runtime.interrupts import run_apart, start_apart
from lock.session.engine import Engine, Steps
from lock.session.session import Session

ReleasableT = TypeVar("ReleasableT", bound="Releasable")
HeldT = TypeVar("HeldT", bound="HeldKey")

logger = logging.getLogger(__name__)


class Leaving(ABC):
    """What ``with`` leaves, once: what leaves it takes it out of `turn`, or else an interrupt has come first."""

    _client: Client
    _engine: Engine

    def __exit__(self, *exc_info: object) -> None:
        turn = [self]
        try:
            self._client.apart(run_steps, self._leave(turn, threading.current_thread()), self._engine.drive)
        except BaseException as error:
            if turn:
                start_apart(partial(self._abandon, turn, threading.current_thread()))
            if exc_info[0] is None or not isinstance(error, LockError):  # else the error of the body matters more
                raise

    def _leave(self, turn: list[Any], owner: object) -> Steps[None]:
        """Release it on behalf of a thread or task."""
        try:
            turn.pop()
        except IndexError:
            return
        held = self._left_by(owner)
        if held is not None:
            yield from held._release(owner)

    def _abandon(self, turn: list[Any], owner: object) -> None:
        """Have the session release it; takes no lock, and does not wait."""
        with contextlib.suppress(LockError, IndexError):
            turn.pop()
            held = self._left_by(owner)
            if held is not None:
                held._give_up()

    @abstractmethod
    def _left_by(self, owner: object) -> "Releasable | None":
        """What is to be released when a thread or task leaves this."""


class Releasable(Leaving):
    """What is held, until it is released or lost."""

    released = False
    _kept_in: tuple[list[Any], ...] = ()

    def __init__(self, session: Session) -> None:
        self._session = session
        self._client = session.client
        self._engine = session._engine

    def __enter__(self: ReleasableT) -> ReleasableT:
        try:
            self.ensure()
            return self
        except BaseException:  # an interrupt, too: neither the body nor `__exit__` will run
            run_apart(self._give_up)
            raise

    def release(self, *, wait: bool = True) -> None:
        """Free the lock for the next one; returns when etcd has deleted the key or the client's timeout is over.

        If etcd does not answer, the session goes on trying. A next one of this process holds at once; then, and
        if it is not to `wait`, this returns as soon as the deletion is ordered. So it does not tell that the key was
        deleted from elsewhere before (that is logged instead), nor that the lock is free for others already.

        Raises:
            NotHeld: it was released before.
            LockLost: the lock was lost before, so it was not ours up to this moment.
            EtcdUnavailable: the client was closed before.
        """
        self._client.apart(run_steps, self._release(threading.current_thread(), wait=wait), self._engine.drive)

    def _release(self, owner: object, *, wait: bool = True) -> Steps[None]:
        """Give it back on behalf of a thread or task."""
        tickets = self._end(owner)
        if tickets:
            yield self._engine.release(tickets, wait=wait)
        else:
            self._go_on()

    def _left_by(self, owner: object) -> "Releasable | None":
        return self

    @abstractmethod
    def _end(self, owner: object) -> Sequence[Ticket]:
        """It counts as released from now on; the tickets to release, none if it is held on."""

    def _go_on(self) -> None:
        """It is held on, by another turn or for another entry."""

    @abstractmethod
    def _give_up(self) -> None:
        """Have the session release it, if it is not released; takes no lock, and does not wait."""

    @abstractmethod
    def _accept(self) -> None:
        """It has come to its caller."""

    @abstractmethod
    def ensure(self) -> None:
        """Raise if it is not surely ours."""

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when the lock is lost, as `Session.on_lost` does; at once if it is already."""
        self._client.apart(self._engine.callbacks.call_when, self._add_listener, callback)

    def _on_loss(self, listener: Callable[[], object]) -> None:
        """Do the same as `on_lost`, for a listener that is quick and does not raise."""
        if not self._client.apart(self._add_listener, listener):
            listener()

    @abstractmethod
    def _add_listener(self, listener: Callable[[], object]) -> bool:
        """Call a listener that is quick and does not raise; False if it is lost already."""

    def _keep_in(self, holds: list[Any]) -> None:
        """Stand in a list until it is released, such as that of what a thread or task has acquired."""
        self._kept_in += (holds,)
        holds.append(self)

    def _forget(self) -> None:
        """It counts as released, wherever that was done."""
        self.released = True
        for holds in self._kept_in:
            with contextlib.suppress(ValueError):
                holds.remove(self)


class HeldKey(Releasable):
    """A key that holds, made by a recipe. Leaving ``with`` releases it.

    Attributes:
        name: the lock's name.
        key: the key in etcd that holds. In a condition it goes on being true for the next hold of this process, until
            it is deleted: for a transaction there is `is_owner`.
        released: whether it was released.
    """

    _expires = math.inf  # a time, by `max_hold`

    def __init__(self, session: Session, name: str, ticket: Ticket, *, max_hold: float | None = None) -> None:
        super().__init__(session)
        self.name = name
        self.key = ticket.key
        self._ticket = ticket
        assert ticket.created is not None
        self._create_revision = ticket.created
        if max_hold is not None:
            reason = f"lock {name!r} was held for {max_hold} s, its max_hold"
            self._expires = self._engine.apply(self._engine.expiry.expire_in, ticket, max_hold, reason)

    def __repr__(self) -> str:
        state = "released" if self.released else "lost" if self._ticket.is_lost else "held"
        return f"<{type(self).__name__} of {self.name!r}, create revision {self._create_revision}, {state}>"

    @property
    def lost(self) -> threading.Event:
        """Set as soon as it is known that the lock is not ours any more; what comes after a release is not its loss."""
        return self._client.apart(self._find_loss).event

    def _find_loss(self) -> Loss:
        return self._engine.loss_of(self._ticket)

    def _add_listener(self, listener: Callable[[], object]) -> bool:
        return self._find_loss().add(listener)

    def remaining(self) -> float:
        """Seconds for which the lock is surely ours unless its key is deleted by hand; 0.0 once it is lost."""
        self._client.check_process()
        if self.released or self._ticket.failure is not None:
            return 0.0
        moment = now()
        return min(self._engine.core.remaining(moment), max(self._expires - moment, 0.0))

    def ensure(self) -> None:
        """Return if the lock is ours by all that is known here; that can change at once, so use the token.

        Raises:
            LockLost: it is not.
            HoldExpired: it was held for `max_hold`.
            NotHeld: it was released.
        """
        if self.remaining() == 0.0:
            if self.released:
                raise self._not_held()
            self._client.apart(self._engine.check, self._ticket)

    def is_owner(self) -> Created:
        """The condition that this hold still owns the lock, for an etcd transaction that writes what it protects.

        ``client.put(key, value, if_=hold.is_owner())`` is one. etcd checks it in the same step as the write. The next
        hold begins after the key of this one is deleted, even in this process: a late transaction fails.

        Raises as `ensure` if the lock is not ours any more: then the next hold may have begun already.
        """
        self._client.check_process()
        if self.released:
            raise self._not_held()
        self._client.apart(self._engine.apply, self._fence)
        return self._client.requests.created(self.key, self._create_revision)

    def on_contended(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, as `on_lost` does, when this process learns of a waiter; so a long holder can give way.

        Within moments of its arrival, as the session follows the queue from now on; never if the hold is over.
        """
        check_callback(callback, "on_contended takes a function without arguments, such as event.set")
        contention = Contention(self._engine.core, partial(self._engine.callbacks.send, callback))
        self._client.apart(self._engine.apply, contention.begin, self._ticket)

    def _end(self, owner: object) -> Sequence[Ticket]:
        if self.released:
            raise self._not_held()
        self._forget()
        return (self._ticket,)

    def _give_up(self) -> None:
        if not self.released:
            self._forget()
            self._engine.note(partial(self._engine.core.endings.leave, self._ticket))

    def _accept(self) -> None:
        self._ticket.waiter = None  # until here, a hold that never comes to its caller is given back

    def _overwrite(self, value: bytes) -> None:
        """Give the key another value."""
        condition = self._client.requests.created(self.key, self._create_revision)
        if not self._client.put(self.key, value, if_=condition, lease_id=self._session.lease_id):
            raise LockLost(f"key {self.key!r} was deleted from elsewhere: the lock is not ours any more")
        self._ticket.value = value

    def _fence(self, now: float) -> None:
        self._engine.core.fence(self._ticket, now)

    def _pass_on(self, kind: type[HeldT]) -> HeldT:
        """The same key as another hold, while this one counts as released."""
        other = kind.__new__(kind)
        other.__dict__.update(self.__dict__, _kept_in=())
        self._forget()
        for holds in self._kept_in:
            other._keep_in(holds)
        return other

    def _not_held(self) -> NotHeld:
        return NotHeld(f"lock {self.name!r} (key {self.key!r}) was released before")

    def __del__(self) -> None:
        ticket: Ticket | None = getattr(self, "_ticket", None)
        if ticket is None or self.released or ticket.failure is not None or self._client.forked():
            return
        if self._engine.core.failure is None and ticket.waiter is None:  # else nobody has ever got it
            until = "its session ends" if self._expires == math.inf else "its max_hold is over"
            logger.warning(
                "lock %r, acquired at %s, was dropped without a release: it stays locked until %s",
                self.name, ticket.where, until,
            )  # fmt: skip


class Hold(HeldKey):
    """A lock, held. Leaving ``with`` releases it.

    Attributes:
        token: the fencing token, an int that rises with every hold of this name: the key's create revision. (Not the
            revision in the answer's header, which is higher after a wait, nor the lease id, which does not rise.)
    """

    @property
    def token(self) -> int:
        return self._create_revision
