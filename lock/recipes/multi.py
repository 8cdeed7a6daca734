"""Several locks at once, all or none.

Why it cannot deadlock. Names are locked in sorted order, whatever the order given. A waiter for a name is kept
waiting by keys of that name or of names below it, none of which sorts before it; and their owners wait, if at all,
for names that sort after those. So along any chain of waiting the names only rise, and no chain closes.

Error handling: whatever goes wrong on the way, the locks taken so far are released. The time given is for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lock.core.queue import Ticket
from lock.errors import InvalidName, NotHeld
from lock.etcd.requests import Created
from lock.model import Contender
from lock.names import queue_prefix
from lock.recipes.attempt import Attempt
from lock.recipes.hold import Hold, Releasable
from lock.recipes.mutex import Mutex
from lock.recipes.queued_lock import Acquirable
from lock.runtime.callbacks import Loss
from lock.runtime.clock import now
from lock.session.engine import Steps
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

    def _steps(self, attempt: Attempt, until: float, **options: Any) -> Steps[MultiHold | None]:
        taken: list[Hold] = []
        try:
            for mutex in self.mutexes:
                late = {"tries": True} if now() >= until else {}
                hold = yield from mutex._steps(attempt, until, **{**options, **late})
                if hold is None:
                    give_up_all(taken)
                    return None
                taken.append(hold)
            for hold in taken:
                hold.ensure()  # the first may be lost since
            return MultiHold(self.session, taken)
        except BaseException:
            give_up_all(taken)
            raise


class MultiHold(Releasable):
    """Several locks, held; made by `MultiLock`. Leaving ``with`` frees all, the last first, even if some are lost.

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
            if not hold._add_listener(self._loss.notify):
                self._loss.notify()

    def __repr__(self) -> str:
        state = "released" if self.released else "lost" if self.lost.is_set() else "held"
        return f"<MultiHold, tokens {self.tokens}, {state}>"

    def remaining(self) -> float:
        """Seconds for which all locks are surely ours; see `Hold.remaining`."""
        return min(hold.remaining() for hold in self._holds_of_all)

    def ensure(self) -> None:
        """Return if all locks are ours by all that is known here; raises as `Hold.ensure`."""
        for hold in self._holds_of_all:
            hold.ensure()

    def is_owner(self) -> list[Created]:
        """The conditions that all locks are still ours; see `Hold.is_owner`."""
        return self._client.apart(lambda: [hold.is_owner() for hold in self._holds_of_all])

    def _add_listener(self, listener: Callable[[], object]) -> bool:
        return self._loss.add(listener)

    def _accept(self) -> None:
        for hold in self._holds_of_all:
            hold._accept()

    def _end(self, owner: object) -> Sequence[Ticket]:
        self._client.check_process()
        if self.released:
            raise NotHeld(f"locks {', '.join(self.tokens)} were released before")
        self._forget()
        return [ticket for hold in self._holds_of_all[::-1] if not hold.released for ticket in hold._end(owner)]

    def _give_up(self) -> None:
        if not self.released:
            self._forget()
            give_up_all(self._holds_of_all)


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
    for inner in ordered:
        parts = inner.split("/")
        for number in range(1, len(parts)):
            if (outer := "/".join(parts[:number])) in names:
                raise InvalidName(f"{inner!r} stands below {outer!r}, which waits for it: name the one that is meant")
    return ordered
