"""The recipes of `lock` for tasks, on the same sessions and queues, with the same errors.

A task may be cancelled at any moment: its key is deleted and a hold that came too late is given back, in the background
if etcd does not answer at once. What is acquired belongs to the task that called `acquire`, whichever task runs it:
``wait_for`` and ``gather`` make tasks of their own.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Generic, ParamSpec, TypeVar

import lock as sync
from lock.aio import driver
from lock.aio.holds import AsyncHold, AsyncHoldT, HeldT, Hold, Leadership, MultiHold, Permit, ReadHold, Turn, WriteHold
from lock.recipes.attempt import Attempt
from lock.recipes.decorated import check_decorated
from lock.recipes.election import encode
from lock.recipes.queued_lock import deadline
from lock.runtime.clock import now

P = ParamSpec("P")
R = TypeVar("R")
Wrap = Callable[[Any], AsyncHoldT]


class Acquiring(driver.Leaving, Coroutine[Any, Any, AsyncHoldT]):
    """A wait: ``await`` it once for a hold, or use it in ``async with``, which releases; a coroutine for a task."""

    def __init__(
        self, taking: Coroutine[Any, Any, AsyncHoldT], undo: Callable[[], None], *, cancel_on_lost: bool = False
    ) -> None:
        self._taking = taking
        self.undo = undo  # where an interrupt keeps the hold from the task
        self._cancel_on_lost = cancel_on_lost
        self._cancelling: _CancelOnLost | None = None

    def __await__(self) -> Generator[Any, None, AsyncHoldT]:
        return self._alone().__await__()

    def send(self, value: Any) -> Any:
        """Needed by `asyncio.create_task`, as `throw` and `close` are."""
        return self._alone().send(value)

    def throw(self, *error: Any) -> Any:
        return self._taking.throw(*error)

    def close(self) -> None:
        self._taking.close()

    async def __aenter__(self) -> AsyncHoldT:
        try:
            hold = await self._taking
            self._sync = hold._held
            if self._cancel_on_lost:
                self._cancelling = _CancelOnLost(hold)
            return hold
        except BaseException:
            self.undo()
            raise

    def _begin_to_leave(self, raised: object) -> sync.LockLost | None:
        return self._cancelling.end(raised) if self._cancelling is not None else None

    def _alone(self) -> Coroutine[Any, Any, AsyncHoldT]:
        """The wait, without an ``async with``."""
        if self._cancel_on_lost:
            self._taking.close()
            raise TypeError("cancel_on_lost cancels the body of an `async with`: write that instead of `await`")
        return self._taking


class _CancelOnLost:
    """Cancels the task that makes it when the hold is lost, until it is released, in the way of `asyncio.timeout`.

    Python 3.10 does not count cancellations: one that comes from elsewhere after the loss is taken for this one there.
    """

    def __init__(self, hold: AsyncHold[Any]) -> None:
        self._hold = hold
        self._task: Any = asyncio.current_task()
        self._requests = getattr(self._task, "cancelling", int)()  # before this one
        self._error: sync.LockLost | None = None
        self._is_over = False
        hold._held._on_loss(functools.partial(driver.call_in, asyncio.get_running_loop(), self._cancel))

    def end(self, raised: object) -> sync.LockLost | None:
        """Why the lock was lost, if that is what `raised`, the error of the body, stands for."""
        self._is_over = True
        if self._error is None:
            return None
        is_last = getattr(self._task, "uncancel", int)() <= self._requests
        return self._error if is_last and isinstance(raised, asyncio.CancelledError) else None

    def _cancel(self) -> None:
        if self._is_over or self._hold._is_left:
            return
        try:
            self._hold.ensure()
        except sync.NotHeld:
            return
        except sync.LockLost as error:
            self._error = error
            self._task.cancel()


class Acquirable(driver.Leaving, Generic[HeldT, AsyncHoldT]):
    """What tasks acquire, each for itself, through a recipe of `lock`; costs nothing until used and may be shared."""

    def __init__(self, recipe: Any, wrap: Wrap[AsyncHoldT]) -> None:
        self._sync = self._recipe = recipe
        self._wrap = wrap

    def __repr__(self) -> str:
        return repr(self._recipe)

    def acquire(self, *, timeout: float | None = None, cancel_on_lost: bool = False) -> Acquiring[AsyncHoldT]:
        """Wait for the lock: ``async with x.acquire(timeout=5) as hold``, or ``hold = await x.acquire()``.

        ``async with x as hold`` waits without an end. `timeout` and errors are those of `lock.Mutex.acquire`.

        With `cancel_on_lost` the body of the ``async with`` is cancelled when the lock is lost, and `LockLost` leaves
        the ``async with``. As with `asyncio.timeout`, a cancellation from elsewhere remains one.
        """
        return self._acquire(timeout, cancel_on_lost)

    async def try_acquire(self) -> AsyncHoldT | None:
        """The lock if it is free at this moment, else `None`; raises as `lock.Mutex.try_acquire`."""
        return await self._take(Attempt(asyncio.current_task()), now(), tries=True)

    def cancel(self) -> None:
        """End all waits in `acquire` of this object with `LockCancelled`, those of this moment; holds go on."""
        self._recipe.cancel()

    async def locked(self) -> bool:
        """Whether it is held at this moment, by any client; see `lock.Mutex.locked`."""
        return bool(await driver.call(self._recipe.locked))

    def release(self) -> Coroutine[Any, Any, None]:
        """Release what this task has acquired last by this object; to be awaited. Raises as `lock.Hold.release`."""
        return self._release(driver.calling_task())

    def current(self) -> AsyncHoldT:
        """The last hold of this task by this object that is not released; `NotHeld` where there is none."""
        return self._wrap(self._recipe._last_of(driver.calling_task()))

    def synchronized(
        self, *, timeout: float | None = None
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """Decorate a coroutine function: each call runs as the body of ``async with self.acquire(timeout=timeout)``.

        As `lock.Mutex.synchronized`. TypeError: it is not a coroutine function (``async def``).
        """
        deadline(timeout)

        def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
            check_decorated(function, is_awaited=True)

            @functools.wraps(function)
            async def locked_call(*args: P.args, **options: P.kwargs) -> R:
                async with self.acquire(timeout=timeout):
                    return await function(*args, **options)

            return locked_call

        return decorate

    async def __aenter__(self) -> AsyncHoldT:
        attempt = Attempt(driver.calling_task(), enters=True)
        return await self._take(attempt, math.inf)  # type: ignore[return-value]

    async def _release(self, owner: Any) -> None:
        owner = owner or driver.calling_task()
        await driver.release(self._recipe._last_of(owner), owner)

    def _acquire(self, timeout: float | None, cancel_on_lost: bool, **options: Any) -> Acquiring[Any]:
        until, attempt = deadline(timeout), Attempt(driver.calling_task())
        taking = self._take(attempt, until, tries=timeout == 0, explains=True, **options)
        return Acquiring(taking, attempt.undo, cancel_on_lost=cancel_on_lost)

    async def _take(self, attempt: Attempt, until: float, **options: Any) -> AsyncHoldT | None:
        """The hold, for this task; `options` are those of `Acquisition`."""
        attempt.owner = attempt.owner or driver.calling_task()
        try:
            held = await driver.Acquire(self._recipe, attempt, until, **options).result()
            return None if held is None else self._wrap(held)
        except BaseException:
            attempt.undo()
            raise


class AsyncLock(Acquirable[HeldT, AsyncHoldT]):
    """A name to be locked by any task, through a recipe of `lock`; costs nothing until used and may be shared."""

    async def contenders(self) -> list[sync.Contender]:
        """Holders and waiters, as the `contenders` of the recipe in `lock`."""
        return list(await driver.call(self._recipe.contenders))


class Mutex(AsyncLock[sync.Hold, Hold[sync.Hold]]):
    """`lock.Mutex` for tasks."""

    def __init__(self, session: sync.Session, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(sync.Mutex(session, name, max_hold=max_hold), Hold)


class ReentrantMutex(AsyncLock[sync.ReentrantHold, Hold[sync.ReentrantHold]]):
    """`lock.ReentrantMutex` for tasks: the task that holds enters again."""

    def __init__(self, session: sync.Session, name: str, *, max_hold: float | None = None) -> None:
        super().__init__(sync.ReentrantMutex(session, name, max_hold=max_hold), Hold)


class CohortMutex(AsyncLock[sync.Turn, Turn]):
    """`lock.CohortMutex` for tasks, which take turns; one object per name and process."""

    def __init__(
        self, session: sync.Session, name: str, *, batch: int = 64, slice: float = 0.05, linger: float = 0.0
    ) -> None:
        super().__init__(sync.CohortMutex(session, name, batch=batch, slice=slice, linger=linger), Turn)


class Semaphore(AsyncLock[sync.Permit, Permit]):
    """`lock.Semaphore` for tasks."""

    def __init__(self, session: sync.Session, name: str, limit: int, *, max_hold: float | None = None) -> None:
        super().__init__(sync.Semaphore(session, name, limit, max_hold=max_hold), Permit)


class ReadWriteLock:
    """`lock.ReadWriteLock` for tasks; the holds of `read` are `ReadHold`, those of `write` are `WriteHold`."""

    def __init__(self, session: sync.Session, name: str, *, max_hold: float | None = None) -> None:
        self._recipe = both = sync.ReadWriteLock(session, name, max_hold=max_hold)
        self.read: AsyncLock[sync.ReadHold, ReadHold] = AsyncLock(both.read, ReadHold)
        self.write: AsyncLock[sync.WriteHold, WriteHold] = AsyncLock(both.write, WriteHold)

    def __repr__(self) -> str:
        return repr(self._recipe)

    async def contenders(self) -> list[sync.Contender]:
        """Holders and waiters, holders first; raises as `lock.Mutex.contenders`."""
        return await self.read.contenders()


class MultiLock(Acquirable[sync.MultiHold, MultiHold]):
    """`lock.MultiLock` for tasks: all of its names, or none."""

    def __init__(self, session: sync.Session, names: Iterable[str]) -> None:
        super().__init__(sync.MultiLock(session, names), MultiHold)

    async def contenders(self) -> dict[str, list[sync.Contender]]:
        """Holder and waiters of each name, as those of `lock.MultiLock`."""
        return dict(await driver.call(self._recipe.contenders))


class Election:
    """`lock.Election` for tasks that campaign."""

    def __init__(self, session: sync.Session, name: str) -> None:
        self._election = sync.Election(session, name)
        self._candidates = AsyncLock[sync.Leadership, Leadership](self._election._candidates, Leadership)

    def __repr__(self) -> str:
        return repr(self._election)

    def campaign(
        self, value: str, *, timeout: float | None = None, cancel_on_lost: bool = False
    ) -> Acquiring[Leadership]:
        """Wait until elected, and proclaim `value`; as `AsyncLock.acquire`."""
        return self._candidates._acquire(timeout, cancel_on_lost, value=encode(value))

    def cancel(self) -> None:
        """The same as `AsyncLock.cancel`, for campaigns."""
        self._candidates.cancel()

    async def leader(self) -> sync.Leader | None:
        """See `lock.Election.leader`. For `observe` use `lock.Election`, in a thread."""
        return await driver.call(self._election.leader)
