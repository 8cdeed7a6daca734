"""Drives acquisitions and releases of a session for tasks: what a thread would block for, a task awaits.

What etcd answers is told to the core by the thread that gets the answer, whether or not the task still waits for it. So
a task may be cancelled at any moment: its key is deleted, and a hold that came too late is given back, in the
background.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from lock.core.acquisition import Acquisition, Ask
from lock.core.messages import Create, Delete, TimeToLive
from lock.core.queue import Stage, Ticket
from lock.errors import EtcdError, EtcdUnavailable
from lock.recipes.hold import HeldKey, Overwrite
from lock.recipes.queued_lock import HoldT, QueuedLock
from lock.runtime.clock import now
from lock.session.engine import Engine

T = TypeVar("T")

_WRITES = 64  # at once, of all tasks of a loop: as many as etcd has use for, as each takes memory and time of the loop
_THREADS = 16  # likewise, for calls that block
_SLEEP_S = 30.0
_writes: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def acquire(lock: QueuedLock[HoldT], owner: object, acquisition: Acquisition, holds: list[Any]) -> HoldT | None:
    """What a started acquisition ends with; kept in `holds`. Raises what its steps raise, and leaves nothing behind."""
    engine = lock.session._engine
    try:
        if not await _run(engine, acquisition):
            return None
        return lock.finish(acquisition, owner, holds)
    except BaseException:  # GeneratorExit too: the loop of this task is gone, and nothing can be awaited any more
        engine.abandon(acquisition)
        raise
    finally:
        lock.stop(acquisition)


async def release(hold: HeldKey, owner: object) -> None:
    """As `lock.Hold.release`; a task that is cancelled here has released it."""
    engine, ticket = hold._engine, hold.end(owner)
    if ticket is None:
        return
    until = now() + engine.client.timeout
    woken = _Wakeups(ticket)
    request = engine.tell(engine.core.release, ticket)
    if request is not None:
        failure = await _deletion(engine, request)
        if failure is not None:
            engine.check_deletion(ticket, failure)
    while ticket.stage is not Stage.GONE and now() < until:
        await woken.wait(until)
    engine.check_released(ticket)


async def overwrite(engine: Engine, steps: Overwrite) -> None:
    """Give a key that holds another value."""
    while not steps.is_done(await asyncio.wrap_future(engine.client.send(steps.next()))):
        pass


def calling_task() -> object:
    """The task that runs now; None outside a loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


async def call(blocking: Callable[[], T]) -> T:
    """What a call returns that blocks: in a thread for it alone, for those of the loop may all wait for this lock."""
    loop = asyncio.get_running_loop()
    async with _threads.setdefault(loop, asyncio.Semaphore(_THREADS)):
        thread = ThreadPoolExecutor(1, "lock-call")
        try:
            return await loop.run_in_executor(thread, blocking)
        finally:
            thread.shutdown(wait=False)


class _Wakeups:
    """Waits of a task for changes of a ticket."""

    def __init__(self, ticket: Ticket) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        ticket.wake = self.wake

    def wake(self) -> None:
        """Wake the task, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, until: float) -> None:
        """Until it is woken since the last wait, or that time has come."""
        timer = self._loop.call_later(max(min(until - now(), _SLEEP_S), 0.0), self._event.set)
        try:
            await self._event.wait()
            self._event.clear()
        finally:
            timer.cancel()


async def _run(engine: Engine, acquisition: Acquisition) -> bool:
    woken = _Wakeups(acquisition.ticket)
    while True:
        step = engine.next(acquisition)
        if step is None:
            return acquisition.is_held
        if not isinstance(step, Ask):
            await woken.wait(step.until)
        elif isinstance(step.request, TimeToLive):
            await _ask_ttl(engine, acquisition, step.request, step.timeout)
        else:
            slots = _writes.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_WRITES))
            async with slots:
                await _ask(engine, acquisition, step, woken)


async def _ask(engine: Engine, acquisition: Acquisition, ask: Ask, woken: _Wakeups) -> None:
    """Send a request, and wait until the core was told the answer."""
    request, loop = ask.request, asyncio.get_running_loop()
    told = loop.create_future()

    def tell(done: Future[Any]) -> None:
        _tell(engine, acquisition.answered, acquisition.failed, request, done)
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(_settle, told, None)

    unanswered = acquisition.unanswered if isinstance(request, Create) else None
    engine.client.send(engine.call_of(request), ask.timeout, unanswered).add_done_callback(tell)
    await told


async def _ask_ttl(engine: Engine, acquisition: Acquisition, request: TimeToLive, timeout: float) -> None:
    asked = asyncio.wrap_future(engine.time_to_live(request.lease_id))
    try:
        status = await asyncio.wait_for(asyncio.shield(asked), timeout)
    except asyncio.TimeoutError:
        asked.cancel()
        late = EtcdUnavailable(f"etcd did not tell within {timeout:g} s what a lease has left")
        engine.tell(acquisition.failed, request, late)
    except EtcdError as error:
        engine.tell(acquisition.failed, request, error)
    else:
        engine.tell(acquisition.answered, request, status.ttl)


async def _deletion(engine: Engine, request: Delete) -> EtcdError | None:
    """Send a deletion, and wait until the core was told the answer; why it has failed."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[EtcdError | None] = loop.create_future()

    def tell(done: Future[Any]) -> None:
        failure = _tell(engine, engine.core.deletions.answered, engine.core.deletions.failed, request, done)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, outcome, failure)

    unanswered = partial(engine.core.deletions.doubt, request)
    engine.client.send(engine.call_of(request), unanswered=unanswered).add_done_callback(tell)
    return await outcome


def _tell(
    engine: Engine, answered: Callable[..., Any], failed: Callable[..., Any], request: object, done: Future[Any]
) -> EtcdError | None:
    try:
        answer = done.result()
    except Exception as error:
        failure = error if isinstance(error, EtcdError) else EtcdUnavailable(f"a call of etcd has failed: {error!r}")
        engine.tell(failed, request, failure)
        return failure
    engine.tell(answered, request, answer)
    return None


def _settle(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)
