"""The way from nothing to a hold.

Error handling: whatever ends it early (timeout, cancellation, KeyboardInterrupt, a lost session), the key that queued
is deleted, by the session's janitor where etcd does not answer. A write whose answer was lost is repeated under the
same key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from lock.errors import EtcdError, EtcdUnavailable, LeaseNotFound, LockCancelled, LockError, LockLost, LockTimeout
from lock.model import Contender, KeyValue
from lock.recipes.hold import Hold
from lock.runtime.clock import now
from lock.session.session import Session

logger = logging.getLogger(__name__)

_FAREWELL_S = 0.05  # what a wait that has timed out may still take to clean up and to learn who holds the lock
_RETRY_S = 0.1
_SLEEP_S = 30.0  # at most: the clock of waits may stand still while the machine is suspended


HoldT_co = TypeVar("HoldT_co", bound=Hold, covariant=True)


class Acquisition(Generic[HoldT_co]):
    """One key on its way from nothing to a hold, by a thread at a time.

    Whoever starts one either gets a `hold` from it or calls `withdraw`, so that no key is left that nobody looks after.
    Deadlines are times of `lock.runtime.clock`, `math.inf` for none.

    Args:
        session: the process's session.
        name: of the lock, for messages.
        prefix: of its queue.
        make: makes the hold: `Hold`, or what a recipe makes of it.
        value: of the key; who queues, and since when, if None.
    """

    def __init__(
        self, session: Session, name: str, prefix: str, make: Callable[..., HoldT_co], *, value: bytes | None = None
    ) -> None:
        self._make = make
        self._value = session.identity() if value is None else value
        self._session = session
        self._client = session.client
        self._name = name
        self._prefix = prefix
        self._started = now()
        self._ticket = session.new_ticket(prefix)
        self._queue = session.add_ticket(prefix, self._ticket)

    def run(self, deadline: float) -> HoldT_co:
        """Queue, wait and hold; or withdraw and raise."""
        try:
            self.join(deadline)
            return self.wait(deadline)
        except BaseException:
            self.withdraw()
            raise

    def attempt(self) -> HoldT_co | None:
        """Hold at once, if nobody else holds or waits."""
        try:
            kv = self._write_alone()
            if kv is None:
                self._queue.remove(self._ticket)
                if self._ticket.in_doubt:
                    self._session.delete_later(self._ticket.key)
                return None
            self._queue.written(self._ticket, kv.create_revision)
            self._ticket.grant(kv.create_revision)
            self._ticket.check()  # lost or cancelled while the answer was out
            return self._hold(kv.create_revision)
        except LeaseNotFound:
            self._queue.remove(self._ticket)
            self._session.lease.gone()
            self._session.ensure()
            raise
        except BaseException:
            self.withdraw()
            raise

    def _write_alone(self) -> KeyValue | None:
        """Try it twice, for the connection may have just been reset.

        A key that the first attempt has written is found by the second one: nothing stood before it, so it is first.
        """
        create, deadline = partial(self._client.create_alone, self._prefix), now() + self._client.timeout
        try:
            return self._write(create)
        except EtcdUnavailable:
            if deadline - now() <= _RETRY_S:
                raise
            self._ticket.turn.wait(_RETRY_S)
            return self._write(create, deadline - now())

    def join(self, deadline: float) -> None:
        """Write the key, again and again while etcd does not answer and there is time.

        Raises:
            EtcdUnavailable: etcd did not confirm it before the deadline.
            SessionLost: the lease is gone.
        """
        # While the answer is out it may be lost or cancelled, and even its turn may come.
        while self._ticket.written_at is None and not self._ticket.turn.is_set():
            timeout = min(self._client.timeout, max(deadline - now(), _FAREWELL_S))
            try:
                kv = self._write(self._client.create, timeout)
            except EtcdUnavailable as error:
                if deadline - now() <= _RETRY_S:
                    raise EtcdUnavailable(f"lock {self._name!r}: no place in the queue in time: {error}") from error
                self._ticket.turn.wait(_RETRY_S)
            except LeaseNotFound:
                self._session.lease.gone()
            else:
                assert kv is not None
                self._queue.written(self._ticket, kv.create_revision)
                return

    def wait(self, deadline: float) -> HoldT_co:
        """Wait for the turn; after a `LockTimeout` another thread may go on waiting for it.

        Raises:
            LockTimeout: the turn had not come at the deadline.
            LockLost: the key was deleted by somebody else, or the session is over.
            LockCancelled: the wait was cancelled.
        """
        turn = self._ticket.turn
        while not turn.wait(max(min(deadline - now(), _SLEEP_S), 0.0)):
            self._session.ensure()
            if now() >= deadline:
                self._queue.catch_up(self._ticket, timeout=_FAREWELL_S)
                if turn.is_set():
                    break
                raise self.timed_out()
        if isinstance(self._ticket.failure, LockLost):  # the key is gone: is it the lease?
            self._session.lease.verify()
            self._session.ensure()
        self._ticket.check()
        assert self._ticket.token is not None
        return self._hold(self._ticket.token)

    def _write(self, create: Callable[..., KeyValue | None], timeout: float | None = None) -> KeyValue | None:
        ticket = self._ticket
        ticket.may_exist = True
        try:
            return create(ticket.key, self._value, self._session.lease_id, timeout=timeout, unanswered=ticket.doubt)
        except EtcdError:
            ticket.may_exist = ticket.in_doubt  # or else etcd has refused it
            raise

    def withdraw(self) -> None:
        """Delete the key, if it was or may have been written: quickly here, or else by the janitor."""
        ticket = self._ticket
        remove = partial(self._queue.remove, ticket)
        try:
            remove()
            if ticket.may_exist:
                self._session.delete(ticket.key, ticket.sure(ticket.created_at), timeout=_FAREWELL_S)
        except EtcdError as error:
            logger.debug("lock %s: key %s is left to the janitor: %s", self._name, ticket.key, error)
        except BaseException:  # KeyboardInterrupt, perhaps the second one
            if ticket.may_exist:
                self._session.delete_later(ticket.key, ticket.sure(ticket.created_at), first=remove)
            raise

    def cancel(self) -> None:
        """End the wait with `LockCancelled`; a hold goes on."""
        self._ticket.cancel(LockCancelled(f"the wait for lock {self._name!r} was cancelled"))

    def _hold(self, token: int) -> HoldT_co:
        self._session.ensure()  # a process that was frozen may hear of its turn before it hears that its lease is over
        return self._make(self._session, self._name, self._queue, self._ticket, token)

    def timed_out(self) -> LockError:
        """An error that says who holds the lock, or that etcd has not confirmed our place in the queue all that time.

        Asks etcd briefly for what is left of the holder's lease.
        """
        waited = now() - self._started
        if self._ticket.written_at is None and waited > _FAREWELL_S:
            return EtcdUnavailable(f"lock {self._name!r}: etcd confirmed no place in the queue within {waited:.1f} s")
        kv = self._queue.holder()
        if kv is None:
            trouble = f": {self._queue.trouble}" if self._queue.trouble else ""
            return LockTimeout(f"lock {self._name!r} not acquired within {waited:.1f} s; holder unknown{trouble}")
        holder = Contender.of(kv, self._ttl_left(kv.lease_id))
        message = f"lock {self._name!r} not acquired within {waited:.1f} s; held by {holder}"
        if "/" in kv.key.removeprefix(self._prefix):
            message += f". That key belongs to a name below {self._name!r}: a name waits for all that is below it"
        return LockTimeout(message, holder=holder)

    def _ttl_left(self, lease_id: int) -> int | None:
        try:
            return self._client.time_to_live(lease_id, timeout=_FAREWELL_S).ttl if lease_id else None
        except EtcdError:
            return None
