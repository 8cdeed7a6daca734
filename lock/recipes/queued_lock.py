"""What any thread acquires, and any task through `lock.aio`; and locks that queue with a key for each acquisition."""

import contextlib
import functools
import math
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

from lock.core.acquisition import Acquisition, Terms
from lock.core.admission import Admission, Frontier
from lock.core.names import queue_prefix
from lock.errors import EtcdDenied, EtcdUnavailable, LockCancelled, NotHeld
from lock.etcd.client import Client
from lock.model import Contender, Declaration, KeyValue
from lock.recipes.cancellation import CancelToken, check_token
from lock.recipes.decorated import check_runs_when_called
from lock.recipes.hold import HeldKey, Hold, Leaving, Releasable, give_back
from lock.runtime import interrupts
from lock.runtime.clock import check_number, now
from lock.runtime.interrupts import run_or_undo
from lock.session.session import Session

HeldT = TypeVar("HeldT", bound=Releasable)
HoldT = TypeVar("HoldT", bound=HeldKey)
P = ParamSpec("P")
R = TypeVar("R")

PLAIN = Terms()
_PACKAGE = __name__.partition(".")[0] + "."


class Acquirable(Leaving, Generic[HeldT]):
    """What any thread acquires. ``with x as hold:``, ``with x.acquire(timeout=5) as hold:`` and `release` all work."""

    def __init__(self, session: Session, label: str) -> None:
        if not isinstance(session, Session):
            raise TypeError(f"a {type(self).__name__} takes a Session, such as Session(client); got {session!r}")
        self.session = session
        self._label = label
        self._held: WeakKeyDictionary[Any, list[HeldT]] = WeakKeyDictionary()
        self._entered: list[HeldT] = []  # by ``with`` of this object, in any thread or task

    def acquire(self, *, timeout: float | None = None, cancel: CancelToken | None = None) -> HeldT:
        """Wait for the lock; use the result in ``with``, or release it, or the lock: see `release`.

        Args:
            timeout: seconds to wait in the queue; None waits for as long as the session lives, and 0 takes the lock if
                it is free. (`try_acquire` returns None instead of raising.) Requests have the client's own timeout, so
                it may take as much longer.
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
        if get_ident() != interrupts.main_thread:
            return self._wait(timeout, cancel)
        return run_or_undo(give_back, self._wait, timeout, cancel)

    @abstractmethod
    def _wait(self, timeout: float | None, cancel: CancelToken | None) -> HeldT:
        """As `acquire`."""

    def release(self) -> None:
        """Release what this thread has acquired last by this object; raises as `Hold.release`."""
        self.current().release()

    def current(self) -> HeldT:
        """The last hold of this thread by this object that is not released; for a `synchronized` function.

        Raises:
            NotHeld: this thread has none.
        """
        self.session.client.check_process()
        return self._last_of(threading.current_thread())

    def synchronized(self, *, timeout: float | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorate a function: each call runs as the body of ``with self.acquire(timeout=timeout)``.

        A call raises as `acquire` does, and the function has not run then. It reaches its hold by `current`.

        Raises:
            TypeError: the function returns before its body has run, as coroutine functions and generators do.
            TypeError, ValueError: `timeout`, as for `acquire`.
        """
        deadline(timeout)

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            check_runs_when_called(function)

            @functools.wraps(function)
            def locked_call(*args: P.args, **options: P.kwargs) -> R:
                with self.acquire(timeout=timeout):
                    return function(*args, **options)

            return locked_call

        return decorate

    def __enter__(self) -> HeldT:
        return run_or_undo(give_back, self._enter)

    def _enter(self) -> HeldT:
        held = self.acquire()
        held._keep_in(self._entered)
        return held

    def _leave(self) -> None:
        self._left_by(threading.current_thread())._leave()

    def _held_by(self, owner: object) -> list[HeldT]:
        """What a thread or task has acquired and not released. They live as long as it does, and no longer."""
        return self._held.setdefault(owner, [])

    def _last_of(self, owner: object) -> HeldT:
        holds = self._held_by(owner)
        if not holds:
            raise NotHeld(f"this {_kind(owner)} holds {self._label} by no acquisition of this object")
        return holds[-1]

    def _left_by(self, owner: object) -> HeldT:
        """The hold that this thread or task leaves: the last one that its ``with`` has entered.

        Where it has entered none, it closes what another one has entered: a generator, or a fixture.
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
        self._engine = session._engine
        self._prefix = queue_prefix(name)
        self._terms = terms
        self._make = hold
        self._max_hold = max_hold
        self._waiting: set[ref[Any]] = set()

    def _wait(
        self, timeout: float | None, cancel: CancelToken | None, *, explains: bool = True, **options: Any
    ) -> HoldT:
        """As `acquire`; `options` are those of `Acquisition`. A try that does not explain may return None."""
        if cancel is not None:
            check_token(cancel)
        until, owner = deadline(timeout), threading.current_thread()
        options.update(tries=timeout == 0, explains=explains)
        return self._enter_again(owner) or self._queue(owner, until, cancel, **options)  # type: ignore[return-value]

    def try_acquire(self) -> HoldT | None:
        """The lock if it is free at this moment, else None; nothing is written where it is taken.

        Raises:
            LockCancelled: the session is draining.
            SessionLost: the session is over.
            EtcdUnavailable: etcd did not answer in time.
            EtcdDenied, EtcdError, AdmissionConflict: see `acquire`.
        """
        return run_or_undo(give_back, self._wait, 0.0, None, explains=False)

    def cancel(self) -> None:
        """End all waits in `acquire` of this object with `LockCancelled`, those of this moment; holds go on."""
        self.session.client.check_process()
        self._cancel_all([acquisition for each in list(self._waiting) if (acquisition := each()) is not None])

    def locked(self) -> bool:
        """Whether it is held at this moment, by any client; asks etcd, so it may raise `EtcdUnavailable`."""
        return bool(self.session.client.get_prefix(self._prefix, limit=1).keys)

    def contenders(self) -> list[Contender]:
        """Holders and waiters, holders first, with the seconds that their leases have left; asks etcd, as `locked`."""
        return contenders_of(self.session.client, self._prefix, lambda _: self._terms.rule)

    def _enter_again(self, owner: object) -> HoldT | None:
        """What this thread or task holds already, entered again; None where it has to queue."""
        return None

    def _start(self, owner: object, until: float, *, value: bytes | None = None, **options: Any) -> Acquisition:
        """An acquisition, not yet sent; `until` is a time of `lock.runtime.clock`."""
        where = caller()
        value = self._engine.identity(self._terms.declared) if value is None else value
        acquisition = self._engine.begin(
            self.name, self._prefix, self._terms, value, deadline=until, owner=ref(owner), **options
        )
        acquisition.ticket.where = where
        self._waiting.add(ref(acquisition))  # weak: a loop's interrupt may come before it is known to its caller
        return acquisition

    def _finish(self, acquisition: Acquisition, owner: object, holds: list[Any]) -> HoldT:
        """The hold of an acquisition that has ended with one; it is kept in `holds`."""
        ticket = acquisition.ticket
        held = self._make(self.session, self.name, ticket, max_hold=self._max_hold)
        held._keep_in(holds)
        ticket.waiter = None  # last: until here, a hold that never comes to its caller is given back
        return held

    def _stop(self, acquisition: Acquisition) -> None:
        self._waiting.discard(ref(acquisition))

    def _cancel_all(self, acquisitions: list[Acquisition]) -> None:
        for acquisition in acquisitions:
            failure = LockCancelled(f"the wait for lock {self.name!r} was cancelled")
            self._engine.note(partial(self._cancel, acquisition, failure))

    def _cancel(self, acquisition: Acquisition, failure: LockCancelled, now: float) -> None:
        self._engine.core.endings.cancel(acquisition.ticket, failure, now)

    def _queue(self, owner: object, until: float, cancel: CancelToken | None, **options: Any) -> HoldT | None:
        return self._finish_waiting(self._start(owner, until, **options), owner, cancel, self._held_by(owner))

    def _finish_waiting(
        self, acquisition: Acquisition, owner: object, cancel: CancelToken | None, holds: list[Any]
    ) -> HoldT | None:
        """Wait in this thread; the hold, kept in `holds`, or None where a try found it taken."""
        try:
            try:
                if cancel is not None:
                    cancel._add(acquisition, lambda: self._cancel_all([acquisition]))
                is_held = self._engine.acquire(acquisition)
            finally:
                self._stop(acquisition)
                if cancel is not None:
                    cancel._discard(acquisition)
            return self._finish(acquisition, owner, holds) if is_held else None
        except BaseException:  # KeyboardInterrupt, too
            self._abandon(acquisition, holds)
            raise

    def _abandon(self, acquisition: Acquisition, holds: list[Any]) -> None:
        """Leave nothing behind, in etcd and in `holds`."""
        self._engine.abandon(acquisition)
        for held in [each for each in holds if each._ticket is acquisition.ticket]:
            held._forget()


class RuleLock(QueuedLock[Hold]):
    """A lock by a custom rule, which says what may hold together; everything else, errors too, is as with `Mutex`.

    Args:
        session: the process's session.
        name: as for `Mutex`. All that use a name have to go by the same rule.
        rule: see `Admission`.
        kind: what this object's keys declare themselves to be, for the rule to read; None is exclusive.
        max_hold: as for `Mutex`.

    Raises:
        TypeError: `rule` is not a hashable `Admission`, or `kind` is not a text; others as `Mutex`.
    """

    def __init__(
        self, session: Session, name: str, rule: Admission, *, kind: str | None, max_hold: float | None = None
    ) -> None:
        if not isinstance(rule, Admission):
            raise TypeError(f"rule is an Admission, such as a frozen dataclass that extends it; got {rule!r}")
        try:
            hash(rule)
        except TypeError:
            raise TypeError(f"rule has to be hashable: make {type(rule).__name__} a frozen dataclass") from None
        if kind is not None and not isinstance(kind, str):
            raise TypeError(f"kind is a text, or None for an exclusive key; got {kind!r}")
        super().__init__(session, name, Hold, terms=Terms(rule, Declaration(kind)), max_hold=max_hold)


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
    frontier = Frontier(rule, keys)
    frontier.advance()
    return [Contender.of(kv, ttls.get(kv.lease_id), holds=frontier.holds(kv.key)) for kv in keys]


def _kind(owner: object) -> str:
    return "thread" if isinstance(owner, threading.Thread) else "task"


def deadline(timeout: float | None) -> float:
    """The time at which `timeout` seconds from now are over, `math.inf` for None; raises as `check_number`."""
    if timeout is None:
        return math.inf
    if not (type(timeout) is float and timeout >= 0):
        check_number(timeout, lambda seconds: seconds >= 0, "timeout is seconds, 0 or more, or None")
    return now() + timeout


def caller() -> str:
    """The line of the program that called this package."""
    frame = sys._getframe(3)  # the nearest that may be: of what calls `acquire`, which calls what calls this
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
