"""Several locks at once, all or none.

Why it cannot deadlock. Names are locked in sorted order, whatever the order given. A waiter for a name is kept
waiting by keys of that name or of names below it, none of which sorts before it; and their owners wait, if at all,
for names that sort after those. So along any chain of waiting the names only rise, and no chain closes.

Error handling: whatever goes wrong on the way, the locks taken so far are released. The time given is for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from lock.errors import InvalidName, LockError, LockLost, NotHeld
from lock.etcd.requests import Created
from lock.model import Contender
from lock.queue.names import queue_prefix
from lock.recipes.cancellation import CancelToken
from lock.recipes.hold import Held, Hold
from lock.recipes.mutex import Mutex
from lock.recipes.queued_lock import Acquirable
from lock.runtime.execution import Execution
from lock.runtime.lost_event import LostEvent
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
        super().__init__(session)
        self.names = _in_order(names)
        self._mutexes = [Mutex(session, name) for name in self.names]

    def locked(self) -> bool:
        """Whether one of them is held at this moment, by any client; see `Mutex.locked`."""
        return any(mutex.locked() for mutex in self._mutexes)

    def contenders(self) -> dict[str, list[Contender]]:
        """Holder and waiters of each name, holder first; asks etcd. Errors are those of `Mutex.contenders`."""
        return {mutex.name: mutex.contenders() for mutex in self._mutexes}

    async def attempting(self, execution: Execution) -> MultiHold | None:
        return await self._all(execution, lambda mutex: mutex.attempting(execution))

    async def _acquiring(self, execution: Execution, until: float, cancel: CancelToken) -> MultiHold:
        hold = await self._all(execution, lambda mutex: mutex.acquiring(execution, until, cancel))
        assert hold is not None
        return hold

    async def _all(
        self, execution: Execution, acquire: Callable[[Mutex], Coroutine[Any, Any, Hold | None]]
    ) -> MultiHold | None:
        holds: list[Hold] = []
        try:
            for mutex in self._mutexes:
                hold = await acquire(mutex)
                if hold is None:
                    await _release_all(execution, holds)
                    return None
                holds.append(hold)
            for hold in holds:
                hold.ensure()  # the first may be lost since
            return MultiHold(holds, self.session)
        except BaseException:
            await _release_all(execution, holds)
            raise


class MultiHold(Held):
    """Several locks, held; made by `MultiLock`. Leaving ``with`` frees all, the last first, even where some are lost.

    Attributes:
        tokens: the fencing token of each name.
        lost: a threading.Event, set as soon as it is known that one of them is lost.
        released: whether they were released.
    """

    def __init__(self, holds: list[Hold], session: Session) -> None:
        super().__init__(session, LostEvent(session.callbacks))
        self.tokens = {hold.name: hold.token for hold in holds}
        self._holds = holds
        one_lost = partial(_one_lost, self.lost_event, ", ".join(self.tokens))
        for hold in holds:
            hold.add_listener(one_lost)

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

    def drop(self) -> None:
        """For the recipes: have the janitor release what is not released."""
        self.released = True
        for hold in self._holds:
            hold.drop()

    async def releasing(self, execution: Execution) -> None:
        self._session.client.check_process()
        if self.released:
            raise NotHeld(f"locks {', '.join(self.tokens)} were released before")
        self.released = True
        failures = await _release_all(execution, self._holds)
        if failures:
            raise failures[0]


async def _release_all(execution: Execution, holds: list[Hold]) -> list[LockError]:
    """Release the last first; what went wrong."""
    failures = []
    try:
        for hold in reversed(holds):
            try:
                await hold.releasing(execution)
            except LockError as error:
                failures.append(error)
    finally:  # an interrupt may have kept some of them from it
        for hold in holds:
            hold.drop()
    return failures


def _one_lost(loss: LostEvent, names: str) -> None:
    # Not a method: what the queue knows would then keep a hold alive that has been dropped everywhere else.
    loss.fail(LockLost(f"one of the locks {names} is lost"))


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
