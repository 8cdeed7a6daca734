"""What is acquired by the steps that threads and tasks share; and locks that queue with a key for each acquisition."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Generic, TypeVar

from lock.errors import EtcdDenied, EtcdUnavailable
from lock.etcd.client import Client
from lock.model import Contender, Declaration
from lock.queue.admission import Admission, Frontier
from lock.queue.names import queue_prefix
from lock.recipes.acquisition import ALONE, Acquisition, Terms
from lock.recipes.cancellation import CancelToken
from lock.recipes.hold import Held, HeldKey, Hold, Lockable
from lock.runtime.clock import check_number, deadline, now
from lock.runtime.execution import BLOCKING, Execution, run_blocking
from lock.session.session import Session

HeldT = TypeVar("HeldT", bound=Held)
HoldT = TypeVar("HoldT", bound=HeldKey)


class Acquirable(Lockable, ABC, Generic[HeldT]):
    """What any thread acquires, and any task through `lock.aio`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._waiting: set[CancelToken] = set()

    def acquire(self, *, timeout: float | None = None, cancel: CancelToken | None = None) -> HeldT:
        """Wait for the lock; use the result in ``with``, or release it.

        Args:
            timeout: seconds to wait; None waits for as long as the session lives, and 0 takes the lock if it is free,
                with the few milliseconds that this needs. (`try_acquire` returns None instead of raising.)
            cancel: ends this wait when it is cancelled.

        Raises:
            ValueError: `timeout` is negative; TypeError: it is not a number.
            LockTimeout: not acquired in time; the message names holder, key and the TTL left of its lease.
            LockCancelled: the wait was cancelled from another thread.
            LockLost: the key that queued was deleted from elsewhere.
            SessionLost: the session is over.
            EtcdUnavailable: etcd did not confirm a place in the queue in time.
            EtcdDenied: etcd does not let this user in.
            EtcdError: etcd refused the key, for example because its space is used up.
            AdmissionConflict: the queue stands by other terms, such as another limit of a `Semaphore`.
        """
        return run_blocking(self.acquiring, BLOCKING, deadline(timeout), cancel)

    def try_acquire(self) -> HeldT | None:
        """The lock if it is free at this moment, else None; no place in the queue is touched.

        Raises:
            LockCancelled: the session is draining.
            SessionLost: the session is over.
            EtcdUnavailable: etcd did not answer in time.
            EtcdDenied, EtcdError, AdmissionConflict: see `acquire`.
        """
        return run_blocking(self.attempting, BLOCKING)

    def cancel(self) -> None:
        """End all waits in `acquire` of this object with `LockCancelled`, those of this moment; holds go on."""
        self.session.client.check_process()
        for waits in list(self._waiting):
            waits.cancel()

    @abstractmethod
    def locked(self) -> bool:
        """Whether it is held at this moment, by any client."""

    @abstractmethod
    def contenders(self) -> Any:
        """Holders and waiters."""

    # For the recipes

    async def acquiring(self, execution: Execution, until: float, cancel: CancelToken | None = None) -> HeldT:
        """`until` is a time of `lock.runtime.clock`."""
        waits = CancelToken()
        self._waiting.add(waits)
        try:
            with (cancel or CancelToken()).attached(waits.cancel):
                return await self._acquiring(execution, until, waits)
        finally:
            self._waiting.discard(waits)

    @abstractmethod
    async def attempting(self, execution: Execution) -> HeldT | None: ...

    @abstractmethod
    async def _acquiring(self, execution: Execution, until: float, cancel: CancelToken) -> HeldT: ...


class QueuedLock(Acquirable[HoldT]):
    """One name, to be locked by any thread; costs nothing until used and may be shared.

    Each acquisition queues with its own key, so threads of one process compete as processes do.
    """

    def __init__(
        self, session: Session, name: str, hold: type[HoldT], *, terms: Terms = ALONE, max_hold: float | None = None
    ) -> None:
        if max_hold is not None:
            check_number(max_hold, lambda seconds: seconds > 0, "max_hold is seconds, more than 0, or None")
        super().__init__(session)
        self.name = name
        self._prefix = queue_prefix(name)
        self._terms = terms
        self._make = partial(hold, max_hold=max_hold)

    def locked(self) -> bool:
        """Whether it is held at this moment, by any client; asks etcd, so it may raise `EtcdUnavailable`."""
        return bool(self.session.client.get_prefix(self._prefix, limit=1).keys)

    def contenders(self) -> list[Contender]:
        """Holders and waiters, holders first, with the seconds that their leases have left; asks etcd, as `locked`."""
        return contenders_of(self.session.client, self._prefix, self._terms.rule)

    async def attempting(self, execution: Execution) -> HoldT | None:
        return await self.new_acquisition(execution).attempt()

    async def _acquiring(self, execution: Execution, until: float, cancel: CancelToken) -> HoldT:
        return await self.new_acquisition(execution).run(until, cancel)

    def new_acquisition(self, execution: Execution = BLOCKING) -> Acquisition[HoldT]:
        """For the recipes: one attempt, not begun."""
        return Acquisition(self.session, self.name, self._prefix, self._make, terms=self._terms, execution=execution)


class RuleLock(QueuedLock[Hold]):
    """A lock by a custom rule, which says what may hold together; everything else, errors too, is as with `Mutex`.

    Args:
        session: the process's session.
        name: as for `Mutex`. All that use a name have to go by the same rule.
        rule: see `Admission`.
        kind: what this object's keys declare themselves to be, for the rule to read; None is exclusive.
        max_hold: as for `Mutex`.
    """

    def __init__(
        self, session: Session, name: str, rule: Admission, *, kind: str | None, max_hold: float | None = None
    ) -> None:
        super().__init__(session, name, Hold, terms=Terms(rule, Declaration(kind)), max_hold=max_hold)


def contenders_of(client: Client, prefix: str, rule: Admission) -> list[Contender]:
    """The queue under a prefix, holders by this rule first, with the seconds that the leases have left; asks etcd.

    Takes no longer than one call may, so leases at the end of a long queue may go unasked; and of a lease with keys
    that the user may not read etcd says nothing (3.5.9 and later).
    """
    until = now() + client.timeout
    keys = client.get_prefix(prefix).keys
    ttls: dict[int, int] = {}
    with contextlib.suppress(EtcdUnavailable):
        for lease in dict.fromkeys(kv.lease_id for kv in keys if kv.lease_id):
            with contextlib.suppress(EtcdDenied):
                ttls[lease] = client.time_to_live(lease, timeout=until - now()).ttl
    frontier = Frontier(rule, keys)
    frontier.advance()
    return [Contender.of(kv, ttls.get(kv.lease_id), holds=frontier.holds(kv.key)) for kv in keys]
