"""The way from nothing to a hold, for threads and tasks (`lock.runtime.execution`).

Error handling: whatever ends it early, the key that queued is deleted, by the session's janitor where etcd does not
answer. A write whose answer was lost is repeated under the same key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from lock.errors import (
    AdmissionConflict,
    EtcdError,
    EtcdUnavailable,
    LeaseNotFound,
    LockCancelled,
    LockError,
    LockLost,
    LockTimeout,
)
from lock.etcd.transport import Call
from lock.model import UNDECLARED, Contender, Declaration, KeyValue, identity
from lock.queue.admission import EXCLUSIVE, Admission, Frontier
from lock.recipes.cancellation import CancelToken
from lock.recipes.hold import HeldKey
from lock.runtime.clock import now
from lock.runtime.execution import BLOCKING, Execution
from lock.session.session import Session

logger = logging.getLogger(__name__)

_FAREWELL_S = 0.05  # what a wait that has timed out may still take to clean up and to learn of the holder
_RETRY_S = 0.1
_SLEEP_S = 30.0  # at most: the clock of waits may stand still while the machine is suspended


@dataclass(frozen=True)
class Terms:
    """How a recipe queues: its rule, what its keys declare to others, and their folder under the prefix."""

    rule: Admission = EXCLUSIVE
    declared: Declaration = UNDECLARED
    folder: str = ""


ALONE = Terms()

T = TypeVar("T")
HoldT_co = TypeVar("HoldT_co", bound=HeldKey, covariant=True)


class Acquisition(Generic[HoldT_co]):
    """One key on its way from nothing to a hold, by a thread or task at a time.

    Its user either gets a hold from it or calls `withdraw`, so no key is left behind. `make` makes the hold, `value` is
    the key's (if None: session, thread and time). Deadlines are times of `lock.runtime.clock`, `math.inf` for none.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        prefix: str,
        make: Callable[..., HoldT_co],
        *,
        terms: Terms = ALONE,
        value: bytes | None = None,
        execution: Execution = BLOCKING,
    ) -> None:
        self._make = make
        self._value = identity(session.name, terms.declared) if value is None else value
        self._session = session
        self._client = session.client
        self._execution = execution
        self._name = name
        self._prefix = prefix
        self._started = now()
        self._ticket = session.new_ticket(f"{prefix}{terms.folder}", terms.rule)
        self._queue = session.add_ticket(prefix, self._ticket)

    async def run(self, deadline: float, cancel: CancelToken) -> HoldT_co:
        """Queue, wait and hold; or withdraw and raise."""
        try:
            with cancel.attached(self.cancel):
                await self.join(deadline)
                return await self.wait(deadline)
        except GeneratorExit:  # the loop of this task is gone, and nothing can be awaited any more
            self._leave_behind()
            raise
        except BaseException:
            await self.withdraw()
            raise

    async def attempt(self) -> HoldT_co | None:
        """Hold at once, if the rule lets it in as the queue is now."""
        try:
            if self._ticket.rule == EXCLUSIVE:
                return await self._attempt_alone()
            return await self._attempt_together()
        except LeaseNotFound:
            self._queue.remove(self._ticket)
            self._session.lease.gone()
            self._session.ensure()
            raise
        except GeneratorExit:
            self._leave_behind()
            raise
        except BaseException:
            await self.withdraw()
            raise

    async def _attempt_alone(self) -> HoldT_co | None:
        """In one atomic step."""
        key = self._ticket.key
        kv = await self._write_alone(
            self._client.requests.create_alone(self._prefix, key, self._value, self._session.lease_id)
        )
        if kv is None:
            self._queue.remove(self._ticket)
            if self._ticket.in_doubt:
                self._session.janitor.delete_later(key)
            return None
        self._queue.written(self._ticket, kv.create_revision)
        self._ticket.grant(kv.create_revision)
        self._ticket.check()  # lost or cancelled while the answer was out
        return self._hold(kv.create_revision)

    async def _write_alone(self, creation: Call[KeyValue | None]) -> KeyValue | None:
        """Try it twice, for the connection may have just been reset.

        A key that the first attempt has written is found by the second one: nothing stood before it, so it is first.
        """
        deadline = now() + self._client.timeout
        try:
            return await self._write(creation)
        except EtcdUnavailable:
            if deadline - now() <= _RETRY_S:
                raise
            await self._execution.wait(self._ticket.turn, _RETRY_S)
            return await self._write(creation, deadline - now())

    async def _attempt_together(self) -> HoldT_co | None:
        """Look before queueing, for a vain attempt should write nothing; and after, for another may be faster."""
        rule, own = self._ticket.rule, KeyValue(self._ticket.key, self._value, 0, 0, self._session.lease_id)
        keys = (await self._ask(self._client.requests.get_prefix(self._prefix))).keys
        conflict = rule.conflict(keys[0]) if keys else None
        if conflict is not None:
            raise AdmissionConflict(conflict)
        frontier = Frontier(rule, [*keys, own])
        frontier.advance()
        if not frontier.holds(own.key):
            self._queue.remove(self._ticket)
            return None
        await self.join(now() + self._client.timeout)
        try:
            return await self.wait(now())
        except LockTimeout:
            await self.withdraw()
            return None

    async def join(self, deadline: float) -> None:
        """Write the key, again and again while etcd does not answer and there is time; else `EtcdUnavailable`."""
        # While the answer is out it may be lost or cancelled, and even its turn may come.
        while self._ticket.written_at is None and not self._ticket.turn.is_set():
            try:
                async with self._execution.slot(max(deadline - now(), _FAREWELL_S)):
                    if self._ticket.turn.is_set():
                        return
                    timeout = min(self._client.timeout, max(deadline - now(), _FAREWELL_S))
                    creation = self._client.requests.create(self._ticket.key, self._value, self._session.lease_id)
                    kv = await self._write(creation, timeout)
            except EtcdUnavailable as error:
                if deadline - now() <= _RETRY_S:
                    raise EtcdUnavailable(
                        f"lock {self._name!r}: no place in the queue in time: {error.__cause__ or error}"
                    ) from error
                await self._execution.wait(self._ticket.turn, _RETRY_S)
            except LeaseNotFound:
                self._session.lease.gone()
            else:
                if kv is not None:
                    self._queue.written(self._ticket, kv.create_revision)

    async def wait(self, deadline: float, since: float | None = None) -> HoldT_co:
        """Wait for the turn; after a `LockTimeout`, see `timed_out`, another thread may go on waiting for it."""
        turn, call = self._ticket.turn, self._execution.call
        while not await self._execution.wait(turn, max(min(deadline - now(), _SLEEP_S), 0.0)):
            self._session.ensure()
            if now() >= deadline:
                if self._queue.is_behind(self._ticket):  # the turn may have come with the very write
                    await call(partial(self._queue.refresh, _FAREWELL_S))
                if turn.is_set():
                    break
                raise await self.timed_out(since)
        if isinstance(self._ticket.failure, LockLost):  # the key is gone: is it the lease?
            if not self._session.lost.is_set():
                await call(self._session.lease.verify)
            self._session.ensure()
        self._ticket.check()
        assert self._ticket.token is not None
        return self._hold(self._ticket.token)

    async def _write(self, creation: Call[KeyValue | None], timeout: float | None = None) -> KeyValue | None:
        ticket = self._ticket
        ticket.may_exist = True
        try:
            return await self._ask(creation, timeout=timeout, unanswered=ticket.doubt)
        except EtcdError:
            ticket.may_exist = ticket.in_doubt  # or else etcd has refused it
            raise

    async def _ask(self, call: Call[T], **options: Any) -> T:
        """The answer of etcd; its errors name the lock."""
        try:
            return await self._client.ask(self._execution, call, **options)
        except EtcdError as error:
            raise type(error)(f"lock {self._name!r}: {error}") from error

    async def withdraw(self) -> None:
        """Delete the key, if it was or may have been written: quickly here, or else by the janitor."""
        ticket = self._ticket
        try:
            self._queue.remove(ticket)
            if ticket.may_exist:
                revision = ticket.sure(ticket.created_at)
                await self._session.janitor.delete(self._execution, ticket.key, revision, timeout=_FAREWELL_S)
        except EtcdError as error:
            logger.debug("lock %s: key %s is left to the janitor: %s", self._name, ticket.key, error)
        except BaseException:  # KeyboardInterrupt, perhaps the second one
            self._leave_behind()
            raise

    def _leave_behind(self) -> None:
        """Have the janitor delete the key, if it was or may have been written."""
        ticket = self._ticket
        if ticket.may_exist:
            remove = partial(self._queue.remove, ticket)
            self._session.janitor.delete_later(ticket.key, ticket.sure(ticket.created_at), first=remove)

    def cancel(self) -> None:
        """End the wait with `LockCancelled`; a hold goes on."""
        self._ticket.cancel(LockCancelled(f"the wait for lock {self._name!r} was cancelled"))

    def _hold(self, token: int) -> HoldT_co:
        self._session.ensure()  # a process that was frozen may hear of its turn before it hears that its lease is over
        return self._make(self._session, self._name, self._queue, self._ticket, token)

    async def timed_out(self, since: float | None = None) -> LockError:
        """An error that names the holder, with what is left of its lease; or says that etcd confirmed no place.

        `since`: when this thread began to wait, where another one made the acquisition.
        """
        waited = now() - (since or self._started)
        if self._ticket.written_at is None and waited > _FAREWELL_S:
            return EtcdUnavailable(f"lock {self._name!r}: etcd confirmed no place in the queue within {waited:.1f} s")
        kv = self._queue.holder()
        if kv is None:
            trouble = f": {self._queue.trouble}" if self._queue.trouble else ""
            return LockTimeout(f"lock {self._name!r} not acquired within {waited:.1f} s; holder unknown{trouble}")
        holder = Contender.of(kv, await self._ttl_left(kv.lease_id), holds=True)
        message = f"lock {self._name!r} not acquired within {waited:.1f} s; held by {holder}"
        if holder.kind is None and "/" in kv.key.removeprefix(self._prefix):
            message += f". That key belongs to a name below {self._name!r}: a name waits for all that is below it"
        return LockTimeout(message, holder=holder)

    async def _ttl_left(self, lease_id: int) -> int | None:
        call = self._client.requests.time_to_live(lease_id)
        try:
            return (await self._ask(call, timeout=_FAREWELL_S)).ttl if lease_id else None
        except EtcdError:
            return None
