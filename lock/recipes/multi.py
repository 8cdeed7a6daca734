"""Several locks at once, all or none.

Why it cannot deadlock. Names are locked in sorted order, whatever the order given. A waiter for a name is kept
waiting by keys of that name or of names below it, none of which sorts before it; and their owners wait, if at all,
for names that sort after those. So along any chain of waiting the names only rise, and no chain closes.

Where all are free, one transaction takes all of them, and nothing was held meanwhile.

Error handling: whatever goes wrong on the way, the locks taken so far are released. The time given is for all of them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from lock.core.messages import MOST
from lock.core.names import queue_prefix
from lock.core.queue import Ticket
from lock.core.together import Together, release_together
from lock.errors import InvalidName, LockError, NotHeld
from lock.etcd.requests import Created
from lock.model import Contender
from lock.recipes.cancellation import CancelToken, check_token
from lock.recipes.hold import Hold, Releasable, give_back
from lock.recipes.mutex import Mutex
from lock.recipes.queued_lock import Acquirable, deadline
from lock.runtime.callbacks import Loss
from lock.runtime.clock import now
from lock.runtime.interrupts import run_or_undo, run_uninterrupted
from lock.session.session import Session


class MultiLock(Acquirable["MultiHold"]):
    """Several names, locked together by any thread; costs nothing until used and may be shared.

    All of them are acquired or none; a `timeout` is for all together.

    Args:
        session: the process's session.
        names: as for `Mutex`, in any order; a name given twice is locked once.

    Raises:
        InvalidName: there is no name, one is invalid, or one stands below another: ``a`` waits for all of ``a/b``,
            so name the one that is meant.
    """

    def __init__(self, session: Session, names: Iterable[str]) -> None:
        self.names = _in_order(names)
        super().__init__(session, f"locks {', '.join(self.names)}")
        self.mutexes = [Mutex(session, name) for name in self.names]

    def _wait(self, timeout: float | None, cancel: CancelToken | None) -> MultiHold:
        if cancel is not None:
            check_token(cancel)
        return self._take(cancel, deadline(timeout), explains=True)  # type: ignore[return-value]  # or it raises

    def try_acquire(self) -> MultiHold | None:
        """All of the locks if they are free at this moment, else None; raises as `Mutex.try_acquire`."""
        return run_or_undo(give_back, self._take, None, now(), explains=False)

    def cancel(self) -> None:
        """End all waits in `acquire` of this object with `LockCancelled`, those of this moment; holds go on."""
        for mutex in self.mutexes:
            mutex.cancel()

    def locked(self) -> bool:
        """Whether one of them is held at this moment, by any client; see `Mutex.locked`."""
        return any(mutex.locked() for mutex in self.mutexes)

    def contenders(self) -> dict[str, list[Contender]]:
        """Holder and waiters of each name, holder first; asks etcd. Errors are those of `Mutex.contenders`."""
        return {mutex.name: mutex.contenders() for mutex in self.mutexes}

    def _take(self, cancel: CancelToken | None, until: float, *, explains: bool) -> MultiHold | None:
        owner, taken = threading.current_thread(), list[Hold]()  # which alone says what this attempt has taken
        kept = self._held_by(owner)
        try:
            may_try = len(self.mutexes) <= MOST and (cancel is None or not cancel.cancelled)
            if not (may_try and self._take_at_once(owner, until, taken)):
                for mutex in self.mutexes:
                    tries = now() >= until
                    acquisition = mutex._start(owner, max(until, now()), tries=tries, explains=explains)
                    if mutex._finish_waiting(acquisition, owner, cancel, taken) is None:
                        release_holds(taken, owner)
                        return None
            return self._finish(list(taken), kept)
        except BaseException:  # an interrupt, too
            for held in [each for each in kept if each._holds_of_all == taken]:
                held._forget()
            give_up_all(taken)
            raise

    def _take_at_once(self, owner: object, until: float, taken: list[Any]) -> bool:
        """Whether all were free, so that they are held now and kept in `taken`; else nothing is."""
        engine = self.session._engine
        with self._together(owner, taken) as together:
            self._start_all(together, owner, until)
            step = engine.apply_here(together.begin)
            if step is not None:
                engine.exchange(together, step.request, step.timeout)
        return bool(taken)

    @contextlib.contextmanager
    def _together(self, owner: object, taken: list[Any]) -> Iterator[Together]:
        """An attempt, whose acquisitions become holds, kept in `taken`, if all hold in the end; else they are left."""
        together = Together()
        try:
            yield together
            if together.is_held():
                for mutex, acquisition in zip(self.mutexes, together.acquisitions, strict=True):
                    mutex._finish(acquisition, owner, taken)
        finally:
            for mutex, acquisition in zip(self.mutexes, together.acquisitions, strict=False):
                mutex._stop(acquisition)
                if acquisition.ticket.waiter is not None:
                    self.session._engine.abandon(acquisition)

    def _start_all(self, together: Together, owner: object, until: float) -> None:
        for mutex in self.mutexes:
            together.acquisitions.append(mutex._start(owner, until, tries=True))

    def _finish(self, holds: list[Hold], kept: list[Any]) -> MultiHold:
        for hold in holds:
            hold.ensure()  # the first may be lost since
        held = MultiHold(self.session, holds)
        held._keep_in(kept)
        return held


class MultiHold(Releasable):
    """Several locks, held; made by `MultiLock`. Leaving ``with`` frees all, the last first, even where some are lost.

    Attributes:
        tokens: the fencing token of each name.
        lost: a threading.Event, set as soon as it is known that one of them is lost.
        released: whether they were released.
    """

    def __init__(self, session: Session, holds: list[Hold]) -> None:
        super().__init__(session)
        self.tokens = {hold.name: hold.token for hold in holds}
        self._loss = Loss()
        self.lost = self._loss.event
        self._holds_of_all = holds
        for hold in holds:
            if not hold._add_listener(self._loss.tell):
                self._loss.tell()

    def remaining(self) -> float:
        """Seconds for which all locks are surely ours; see `Hold.remaining`."""
        return min(hold.remaining() for hold in self._holds_of_all)

    def ensure(self) -> None:
        """Return if all locks are ours by all that is known here; raises as `Hold.ensure`."""
        for hold in self._holds_of_all:
            hold.ensure()

    def is_owner(self) -> list[Created]:
        """The conditions that all locks are still ours; see `Hold.is_owner`."""
        return [hold.is_owner() for hold in self._holds_of_all]

    def _add_listener(self, listener: Callable[[], object]) -> bool:
        return run_uninterrupted(self._loss.add, listener)

    def _end(self) -> list[Hold]:
        self._session.client.check_process()
        if self.released:
            raise NotHeld(f"locks {', '.join(self.tokens)} were released before")
        self._forget()
        return self._holds_of_all

    def _give_up(self) -> None:
        if not self.released:
            self._forget()
            give_up_all(self._holds_of_all)

    def _release(self, owner: threading.Thread, *, wait: bool = True) -> None:
        failures = release_holds(self._end(), owner, wait=wait)
        if failures:
            raise failures[0]


def release_holds(holds: list[Hold], owner: object, *, wait: bool = True) -> list[LockError]:
    """Release all, in one step of etcd; what went wrong. It waits as `Releasable.release`. Where no interrupt comes."""
    if not holds:
        return []
    engine, tickets = holds[0]._engine, end_all(holds, owner)
    until = now() + engine.client.timeout
    groups, attended, failures = engine.apply_here(partial(release_together, engine.core, tickets, waits=wait))
    for request in groups:
        engine.exchange(engine.core.deletions, request)
    engine.wait_until_released(attended, until)
    return [*failures, *engine.failures_of(attended)]


def end_all(holds: list[Hold], owner: object) -> list[Ticket]:
    """All of them count as released from now on; the tickets to release, the last first."""
    tickets = (hold._end(owner) for hold in holds[::-1] if not hold.released)
    return [ticket for ticket in tickets if ticket is not None]


def give_up_all(holds: list[Hold]) -> None:
    """Have the session release the last first; does not wait."""
    for hold in holds[::-1]:
        hold._give_up()


def _in_order(names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise InvalidName(f"MultiLock takes a list of names; for the one name {names!r} there is Mutex")
    names = set(names)
    for name in names:
        queue_prefix(name)  # refuses what is none
    ordered = sorted(names)
    if not ordered:
        raise InvalidName("MultiLock needs a name at least")
    for outer in ordered:
        for inner in ordered:
            if inner.startswith(queue_prefix(outer)):
                raise InvalidName(f"{inner!r} stands below {outer!r}, which waits for it: name the one that is meant")
    return ordered
