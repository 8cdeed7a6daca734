"""Several locks at once, all or none.

Why it cannot deadlock. Names are locked in sorted order, whatever the order given. Whoever waits for a name is kept
waiting by keys of that name or of names below it, none of which sorts before it; and their owners wait, if at all,
for names that sort after those. So along any chain of waiting the names only rise, and no chain closes.

Error handling: whatever goes wrong on the way, the locks taken so far are released. The time given is for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack

from lock.clock import deadline, now
from lock.compare import Created
from lock.errors import InvalidName, LockLost, NotHeld
from lock.hold import Hold, Releasable
from lock.loss import Loss
from lock.mutex import Mutex
from lock.names import queue_prefix
from lock.session import Session


class MultiLock:
    """Several names, locked together by any thread; costs nothing until used and may be shared.

    Args:
        session: the process's session.
        names: as for `Mutex`, in any order; a name given twice is locked once.

    Raises:
        InvalidName: there is no name, one is invalid, or one stands below another: ``a`` waits for all of ``a/b``,
            so name the one that is meant.
    """

    def __init__(self, session: Session, names: Iterable[str]) -> None:
        self.names = _in_order(names)
        self._mutexes = [Mutex(session, name) for name in self.names]

    def acquire(self, *, timeout: float | None = None) -> MultiHold:
        """Wait for all locks; use the result in ``with``, or release it.

        Arguments and errors are those of `Mutex.acquire`, with `timeout` for all locks together.
        """
        until = deadline(timeout)
        with ExitStack() as taken:
            holds = [
                taken.enter_context(mutex.acquire(timeout=None if timeout is None else max(until - now(), 0.0)))
                for mutex in self._mutexes
            ]
            return self._together(holds, taken)

    def try_acquire(self) -> MultiHold | None:
        """All locks if all are free, else None. Errors are those of `Mutex.try_acquire`."""
        with ExitStack() as taken:
            holds = []
            for mutex in self._mutexes:
                hold = mutex.try_acquire()
                if hold is None:
                    return None
                holds.append(taken.enter_context(hold))
            return self._together(holds, taken)

    def _together(self, holds: list[Hold], taken: ExitStack) -> MultiHold:
        for hold in holds:
            hold.ensure()  # the first may be lost since
        return MultiHold(holds, taken.pop_all())


class MultiHold(Releasable):
    """Several locks, held; made by `MultiLock`. Leaving ``with`` releases all.

    Attributes:
        tokens: the fencing token of each name.
        lost: a threading.Event, set as soon as it is known that one of them is lost.
    """

    def __init__(self, holds: list[Hold], stack: ExitStack) -> None:
        self.tokens = {hold.name: hold.token for hold in holds}
        self._holds = holds
        self._stack = stack
        self._released = False
        self._loss = Loss()
        self.lost = self._loss.lost
        for hold in holds:
            hold.on_lost(self._one_lost)

    def remaining(self) -> float:
        """Seconds for which all locks are surely ours; see `Hold.remaining`."""
        return min(hold.remaining() for hold in self._holds)

    def ensure(self) -> None:
        """Return if all locks are ours by all that is known here; raises as `Hold.ensure`."""
        for hold in self._holds:
            hold.ensure()

    def is_owner(self) -> list[Created]:
        """The conditions that all locks are still ours; see `Hold.is_owner`."""
        return [hold.is_owner() for hold in self._holds]

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when the first of the locks is lost; at once if one is already."""
        self._loss.on_lost(callback)

    def release(self) -> None:
        """Free all locks, the last first, even where some are lost.

        Raises:
            NotHeld: they were released before.
            LockLost: one of them was lost before.
        """
        if self._released:
            raise NotHeld(f"locks {', '.join(self.tokens)} were released before")
        self._released = True
        self._stack.close()

    def _one_lost(self) -> None:
        self._loss.fail(LockLost(f"one of the locks {', '.join(self.tokens)} is lost"))


def _in_order(names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise InvalidName(f"MultiLock takes a list of names; for the one name {names!r} there is Mutex")
    ordered = sorted(set(names))
    if not ordered:
        raise InvalidName("MultiLock needs a name at least")
    for outer in ordered:
        for inner in ordered:
            if inner.startswith(queue_prefix(outer)):
                raise InvalidName(f"{inner!r} stands below {outer!r}, which waits for it: name the one that is meant")
    return ordered
