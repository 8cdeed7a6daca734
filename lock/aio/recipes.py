"""The recipes of `lock` for tasks, on the same sessions and queues, with the same errors.

A task may be cancelled at any moment: its key is deleted and a hold that came too late is given back, in the background
where etcd does not answer at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Generic

import lock as sync
from lock.aio.execution import Suspending
from lock.aio.holds import AsyncHoldT, HeldT, Hold, Leadership, MultiHold, Permit, ReadHold, WriteHold
from lock.recipes.queued_lock import Acquirable
from lock.runtime.clock import deadline
from lock.runtime.execution import Execution

_FAREWELL_S = 0.05  # how long a task that is cancelled waits until its key is deleted

Steps = Callable[[Execution, sync.CancelToken], Coroutine[Any, Any, Any]]


class Acquiring(Generic[AsyncHoldT]):
    """A wait: ``await`` it for a hold, or use it in ``async with``, which releases."""

    def __init__(self, steps: Steps, wrap: Callable[[Any], AsyncHoldT]) -> None:
        self._steps = steps
        self._wrap = wrap
        self._hold: AsyncHoldT | None = None

    def __await__(self) -> Generator[Any, None, AsyncHoldT]:
        return self._acquire().__await__()

    async def __aenter__(self) -> AsyncHoldT:
        self._hold = await self
        return self._hold

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._hold is not None
        await self._hold.__aexit__(*exc_info)

    async def _acquire(self) -> AsyncHoldT:
        return self._wrap(await complete(self._steps))


class AsyncLock(Generic[HeldT, AsyncHoldT]):
    """A name to be locked by any task, through a recipe of `lock`; costs nothing until used and may be shared."""

    def __init__(self, recipe: Acquirable[HeldT], wrap: Callable[[HeldT], AsyncHoldT]) -> None:
        self._recipe = recipe
        self._wrap = wrap

    def acquire(self, *, timeout: float | None = None) -> Acquiring[AsyncHoldT]:
        """Wait for the lock: ``async with x.acquire(timeout=5) as hold``, or ``hold = await x.acquire()``.

        `timeout` and errors are those of `lock.Mutex.acquire`.
        """
        until = deadline(timeout)
        return Acquiring(lambda execution, cancel: self._recipe.acquiring(execution, until, cancel), self._wrap)

    async def try_acquire(self) -> AsyncHoldT | None:
        """The lock if it is free at this moment, else None; raises as `lock.Mutex.try_acquire`."""
        held = await complete(lambda execution, _: self._recipe.attempting(execution))
        return None if held is None else self._wrap(held)

    async def contenders(self) -> Any:
        """Holders and waiters, as the `contenders` of the recipe in `lock`."""
        return await Suspending().call(self._recipe.contenders)

    async def locked(self) -> bool:
        """Whether it is held at this moment, by any client; see `lock.Mutex.locked`."""
        return await Suspending().call(self._recipe.locked)


class Mutex(AsyncLock[sync.Hold, Hold[sync.Hold]]):
    """`lock.Mutex` for tasks."""

    def __init__(self, session: sync.Session, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(sync.Mutex(session, name, max_hold=max_hold), Hold)


class ReentrantMutex(AsyncLock[sync.ReentrantHold, Hold[sync.ReentrantHold]]):
    """`lock.ReentrantMutex` for tasks: the task that holds enters again."""

    def __init__(self, session: sync.Session, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(sync.ReentrantMutex(session, name, max_hold=max_hold), Hold)


class RuleLock(AsyncLock[sync.Hold, Hold[sync.Hold]]):
    """`lock.RuleLock` for tasks."""

    def __init__(
        self, session: sync.Session, name: str, rule: sync.Admission, *, kind: str | None, max_hold: float | None = None
    ) -> None:
        super().__init__(sync.RuleLock(session, name, rule, kind=kind, max_hold=max_hold), Hold)


class Semaphore(AsyncLock[sync.Permit, Permit]):
    """`lock.Semaphore` for tasks."""

    def __init__(self, session: sync.Session, name: str, limit: int, *, max_hold: float | None = None) -> None:
        super().__init__(sync.Semaphore(session, name, limit, max_hold=max_hold), Permit)


class ReadWriteLock:
    """`lock.ReadWriteLock` for tasks.

    Attributes:
        read: its holds are `ReadHold`.
        write: its holds are `WriteHold`.
    """

    def __init__(self, session: sync.Session, name: str, *, max_hold: float | None = None) -> None:
        both = sync.ReadWriteLock(session, name, max_hold=max_hold)
        self.read = AsyncLock(both.read, ReadHold)
        self.write = AsyncLock(both.write, WriteHold)

    async def contenders(self) -> list[sync.Contender]:
        """Holders and waiters, holders first; raises as `lock.Mutex.contenders`."""
        found: list[sync.Contender] = await self.read.contenders()
        return found


class MultiLock(AsyncLock[sync.MultiHold, MultiHold]):
    """`lock.MultiLock` for tasks."""

    def __init__(self, session: sync.Session, names: Iterable[str]) -> None:
        super().__init__(sync.MultiLock(session, names), MultiHold)


class Election:
    """`lock.Election` for tasks that campaign."""

    def __init__(self, session: sync.Session, name: str) -> None:
        self._election = sync.Election(session, name)

    def campaign(self, value: str, *, timeout: float | None = None) -> Acquiring[Leadership]:
        """Wait until elected, and proclaim `value`; as `AsyncLock.acquire`."""
        until, campaigning = deadline(timeout), self._election.campaigning
        return Acquiring(lambda execution, cancel: campaigning(execution, value, until, cancel), Leadership)


async def complete(steps: Steps) -> Any:
    """What these steps return, done by their own task, which ends even if this one is cancelled at any moment.

    Then the steps give their wait up; what they bring all the same is released.
    """
    cancel = sync.CancelToken()
    task = asyncio.create_task(steps(Suspending(), cancel))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        cancel.cancel()
        with contextlib.suppress(asyncio.CancelledError):  # the second one: it is cancelled anyway
            await asyncio.wait({task}, timeout=_FAREWELL_S)
        task.add_done_callback(_give_back)
        raise


def _give_back(task: asyncio.Task[Any]) -> None:
    if task.cancelled() or task.exception() is not None:
        return
    late = task.result()
    if late is not None:
        late.drop()
