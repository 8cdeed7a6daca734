"""What any thread acquires, and any task through `lock.aio`; and locks that queue with a key for each acquisition."""

import contextlib
import functools
import math
import threading
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

from lock.core.acquisition import Acquisition, Terms
from lock.core.admission import Admission, Frontier
from lock.errors import EtcdDenied, EtcdUnavailable, LockCancelled, NotHeld
from lock.etcd.client import Client
from lock.etcd.transport import run_steps
from lock.model import Contender, KeyValue
from lock.names import queue_prefix
from lock.recipes.attempt import Attempt
from lock.recipes.decorated import check_decorated
from lock.recipes.hold import HeldKey, Leaving, Releasable
from lock.runtime.clock import check_number, now
from lock.session.engine import Steps
from lock.session.session import Session

HeldT = TypeVar("HeldT", bound=Releasable)
HoldT = TypeVar("HoldT", bound=HeldKey)
P = ParamSpec("P")
R = TypeVar("R")

PLAIN = Terms()


class Acquirable(Leaving, Generic[HeldT]):
    """What any thread acquires. ``with x as hold:``, ``with x.acquire(timeout=5) as hold:`` and `release` all work."""

    def __init__(self, session: Session, label: str) -> None:
        if not isinstance(session, Session):
            raise TypeError(f"{label} takes a Session, such as Session(client); got {session!r}")
        self.session = session
        self._client = session.client
        self._engine = session._engine
        self._label = label
        self._held: WeakKeyDictionary[Any, list[HeldT]] = WeakKeyDictionary()
        self._entered: list[HeldT] = []  # by ``with`` of this object, in any thread or task

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._label}>"

    def acquire(self, *, timeout: float | None = None) -> HeldT:
        """Wait for the lock; use the result in ``with``, or release it, or the lock: see `release`.

        Args:
            timeout: seconds to wait in the queue; `None` waits as long as the session lives, and 0 takes the lock if it
                is free. (`try_acquire` returns `None` instead of raising.) It ends within this time and the client's
                timeout, whatever etcd does.

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
        until, attempt = deadline(timeout), Attempt(threading.current_thread())
        return self._take(attempt, until, tries=timeout == 0, explains=True)  # type: ignore[return-value]

    def try_acquire(self) -> HeldT | None:
        """The lock if it is free at this moment, else `None`; nothing is written if it is taken.

        Raises as `acquire`, but no `LockTimeout`.
        """
        return self._take(Attempt(threading.current_thread()), now(), tries=True)

    def _take(self, attempt: Attempt, until: float, **options: Any) -> HeldT | None:
        """Acquire it for this thread; `options` are those of `Acquisition`. `None` if a try finds it taken."""
        steps, drive = self._steps(attempt, until, **options), self._engine.drive
        accept = partial(self._accept, attempt)
        try:
            held: HeldT | None = self._client.apart(run_steps, steps, drive, accept=accept, undo=attempt.give_up)
            return held
        except BaseException:
            attempt.undo()
            raise

    @abstractmethod
    def _steps(self, attempt: Attempt, until: float, **options: Any) -> Steps[HeldT | None]:
        """What is waited for, one after the other, until that time; and the hold."""

    def _accept(self, attempt: Attempt, held: HeldT | None) -> None:
        """It has come to its caller, a thread or task."""
        if held is not None:
            attempt.held = held
            holds = self._held_by(attempt.owner)
            if held not in holds:  # else it was entered again
                held._keep_in(holds)
            if attempt.enters:
                held._keep_in(self._entered)
            held._accept()

    def release(self) -> None:
        """Release what this thread has acquired last by this object; raises as `Hold.release`."""
        self.current().release()

    def current(self) -> HeldT:
        """The last hold of this thread by this object that is not released; `NotHeld` where there is none."""
        self._client.check_process()
        return self._last_of(threading.current_thread())

    def synchronized(self, *, timeout: float | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorate a function: each call runs as the body of ``with self.acquire(timeout=timeout)``.

        A call raises as `acquire` does, and the function has not run then. It reaches its hold by `current`. TypeError:
        the function returns before its body has run, as coroutine functions and generators do.
        """
        deadline(timeout)

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            check_decorated(function, is_awaited=False)

            @functools.wraps(function)
            def locked_call(*args: P.args, **options: P.kwargs) -> R:
                with self.acquire(timeout=timeout):
                    return function(*args, **options)

            return locked_call

        return decorate

    def __enter__(self) -> HeldT:
        attempt = Attempt(threading.current_thread(), enters=True)
        return self._take(attempt, math.inf)  # type: ignore[return-value]

    def _held_by(self, owner: object) -> list[HeldT]:
        """What a thread or task has acquired and not released. They live as long as it does, and no longer."""
        return [] if owner is None else self._held.setdefault(owner, [])

    def _last_of(self, owner: object) -> HeldT:
        holds = self._held_by(owner)
        if not holds:
            raise NotHeld(f"this {_kind(owner)} holds {self._label} by no acquisition of this object")
        return holds[-1]

    def _left_by(self, owner: object) -> HeldT:
        """The hold that this thread or task leaves: the last one that its ``with`` has entered.

        If it has entered none, it closes what another one has entered: a generator, or a fixture.
        """
        mine = [held for held in self._entered if held in self._held_by(owner)]
        if mine:
            return mine[-1]
        if len(self._entered) != 1:
            number = f"{len(self._entered)} are" if self._entered else "none is"
            raise NotHeld(
                f"this {_kind(owner)} has not entered {self._label}, and of the holds of others {number} entered: "
                "use `with x.acquire() as hold`, which leaves this very hold"
            )
        return self._entered[0]


class QueuedLock(Acquirable[HoldT]):
    """One name, to be locked by any thread, with a key for each acquisition: what a `Mutex` shares with the others."""

    def __init__(
        self, session: Session, name: str, hold: type[HoldT], *, terms: Terms = PLAIN, max_hold: float | None = None
    ) -> None:
        super().__init__(session, f"lock {name!r}")
        if max_hold is not None:
            check_number(max_hold, lambda seconds: seconds > 0, "max_hold is seconds, more than 0, or None")
        self.name = name
        self._prefix = queue_prefix(name)
        self._terms = terms
        self._make = hold
        self._max_hold = max_hold
        self._waiting: set[ref[Any]] = set()

    def cancel(self) -> None:
        """End all waits in `acquire` of this object with `LockCancelled`, those of this moment; holds go on."""
        self._client.check_process()
        for each in list(self._waiting):
            acquisition = each()
            if acquisition is not None:
                self._stop_waiting(acquisition)

    def locked(self) -> bool:
        """Whether it is held at this moment, by any client; asks etcd, so it may raise `EtcdUnavailable`."""
        return bool(self._client.get_prefix(self._prefix, limit=1).keys)

    def contenders(self) -> list[Contender]:
        """Holders and waiters, holders first, with the seconds that their leases have left; asks etcd, as `locked`."""
        return self._client.apart(contenders_of, self._client, self._prefix, lambda _: self._terms.rule)

    def _steps(self, attempt: Attempt, until: float, **options: Any) -> Steps[HoldT | None]:
        """The hold of a new acquisition; `None` if a try finds the lock taken. Leaves nothing behind."""
        acquisition = self._start(attempt, until, **options)
        try:
            try:
                attempt.on_stop(partial(self._stop_waiting, acquisition))
                yield acquisition
            finally:
                self._stop(acquisition)
            return self._finish(acquisition, attempt.owner) if acquisition.is_held else None
        except BaseException:
            self._engine.abandon(acquisition)
            raise

    def _start(self, attempt: Attempt, until: float, *, value: bytes | None = None, **options: Any) -> Acquisition:
        """An acquisition, not yet sent; `until` is a time of `lock.runtime.clock`."""
        value = self._engine.identity(self._terms.declared, attempt.thread) if value is None else value
        last = max(until, attempt.began) + self._client.timeout
        acquisition = self._engine.begin(
            self.name, self._prefix, self._terms, value, deadline=max(until, attempt.began), last=last,
            owner=ref(attempt.owner), **options
        )  # fmt: skip
        acquisition.ticket.where = attempt.where
        self._waiting.add(ref(acquisition))
        return acquisition

    def _finish(self, acquisition: Acquisition, owner: object) -> HoldT:
        """The hold of an acquisition that has ended with one."""
        return self._make(self.session, self.name, acquisition.ticket, max_hold=self._max_hold)

    def _stop(self, acquisition: Acquisition) -> None:
        self._waiting.discard(ref(acquisition))

    def _stop_waiting(self, acquisition: Acquisition) -> None:
        failure = LockCancelled(f"the wait for lock {self.name!r} was cancelled")
        self._engine.note(partial(self._cancel, acquisition, failure))

    def _cancel(self, acquisition: Acquisition, failure: LockCancelled, now: float) -> None:
        self._engine.core.endings.cancel(acquisition.ticket, failure, now)


def contenders_of(client: Client, prefix: str, rule_of: Callable[[list[KeyValue]], Admission]) -> list[Contender]:
    """The queue under a prefix, holders by the rule of its keys first, with the seconds left of the leases; asks etcd.

    Takes no longer than one call may, so leases at the end of a long queue may go unasked; and of a lease with keys
    that the user may not read etcd says nothing (3.5.9 and later).
    """
    until = now() + client.timeout
    keys = client.get_prefix(prefix).keys
    return in_order(keys, rule_of(keys), ttls_of(client, keys, until))


def ttls_of(client: Client, keys: list[KeyValue], until: float) -> dict[int, int]:
    """The seconds left of the leases of these keys, as far as etcd answers until then."""
    ttls: dict[int, int] = {}
    with contextlib.suppress(EtcdUnavailable):
        for lease in dict.fromkeys(kv.lease_id for kv in keys if kv.lease_id):
            with contextlib.suppress(EtcdDenied):
                ttls[lease] = client.time_to_live(lease, timeout=until - now()).ttl
    return ttls


def in_order(keys: list[KeyValue], rule: Admission, ttls: dict[int, int]) -> list[Contender]:
    """The contenders of a queue, holders by its rule first."""
    holders = set(Frontier(rule, keys).advance())
    return [Contender.of(kv, ttls.get(kv.lease_id), holds=kv.key in holders) for kv in keys]


def _kind(owner: object) -> str:
    return "thread" if isinstance(owner, threading.Thread) else "task"


def deadline(timeout: float | None) -> float:
    """The time at which `timeout` seconds from now are over, `math.inf` for `None`; raises as `check_number`."""
    if timeout is None:
        return math.inf
    if not (type(timeout) is float and timeout >= 0):
        check_number(timeout, lambda seconds: seconds >= 0, "timeout is seconds, 0 or more, or None")
    return now() + timeout
