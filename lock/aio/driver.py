"""Drives acquisitions and releases of a session for tasks: what a thread would block for, a task awaits.

What etcd answers is told to the core by the thread that gets the answer, whether or not the task still waits for it. So
a task may be cancelled at any moment: its key is deleted, and a hold that came too late is given back, in the
background. So is that of a task whose loop was closed: at its turn, or when the session compares its keys.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from lock.core.acquisition import Acquisition, Send
from lock.core.cohort import CohortTurn
from lock.core.messages import TimeToLive
from lock.core.queue import Ticket
from lock.core.together import Together, release_together
from lock.errors import EtcdError, EtcdUnavailable, LockError
from lock.recipes.hold import HeldKey
from lock.recipes.multi import MultiHold, MultiLock, end_all
from lock.recipes.queued_lock import HoldT, QueuedLock
from lock.runtime.clock import now
from lock.session.engine import Engine

T = TypeVar("T")

_WRITES = 64  # at once, of all tasks of a loop: as many as etcd has use for, as each takes memory and time of the loop
_THREADS = 16  # likewise, for calls that block
_SLEEP_S = 30.0
_writes: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def acquire(
    lock: QueuedLock[HoldT], owner: object, holds: list[Any], until: float, **options: Any
) -> HoldT | None:
    """What an acquisition ends with; kept in `holds`. Raises what its steps raise, and leaves nothing behind.

    `until` is a time, `options` are those of `Acquisition`.
    """
    held = lock._enter_again(owner)
    if held is not None:
        return held
    engine, acquisition = lock.session._engine, lock._start(owner, max(until, now()), **options)
    try:
        if not await _run(engine, acquisition):
            return None
        return lock._finish(acquisition, owner, holds)
    except BaseException:  # GeneratorExit too: the loop of this task is gone, and nothing can be awaited any more
        lock._abandon(acquisition, holds)
        raise
    finally:
        lock._stop(acquisition)


async def acquire_together(lock: MultiLock, owner: object, until: float, taken: list[Any]) -> bool:
    """Whether all of its names were free, so that they are held now and kept in `taken`; else nothing is."""
    engine, loop = lock.session._engine, asyncio.get_running_loop()
    with lock._together(owner, taken) as together:
        lock._start_all(together, owner, until)
        for acquisition in together.acquisitions:
            acquisition.ticket.waiter = partial(_unless_closed, loop, ref(acquisition))
        step = engine.apply(together.begin)
        if step is not None:
            await _send(engine, together, step)
    return bool(taken)


async def release_held(held: HeldKey | MultiHold, owner: object, *, wait: bool = True) -> None:
    """Free what is held; a task that is cancelled here has freed it. `owner` is None for the task that awaits this."""
    owner = owner or calling_task()
    tickets = end_all(held._end(), owner) if isinstance(held, MultiHold) else [held._end(owner)]
    failures = await release_all(held._session._engine, tickets, wait=wait)
    if failures:
        raise failures[0]


async def release_all(engine: Engine, ended: Sequence[Ticket | None], *, wait: bool = True) -> list[LockError]:
    """As `lock.recipes.multi.release_holds`; all is sent before anything is awaited. None: it is held on."""
    tickets = [ticket for ticket in ended if ticket is not None]
    if not tickets:
        return []
    until, deletions = now() + engine.client.timeout, engine.core.deletions
    failures: list[LockError]
    groups, attended, failures = engine.apply(partial(release_together, engine.core, tickets, waits=wait))
    woken = _Wakeups(*attended)
    for answer in [_outcome(engine, deletions, request, engine.send(deletions, request)) for request in groups]:
        await answer
    while not engine.is_over(attended, until):
        await woken.wait(until)
    return [*failures, *engine.failures_of(attended)]


def call_in(loop: asyncio.AbstractEventLoop, do: Callable[[], object]) -> None:
    """Have the loop call this, from any thread; nothing where it was closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(do)


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

    def __init__(self, *tickets: Ticket | CohortTurn, abandon: Callable[[], object] = lambda: None) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._abandon = abandon  # what the task waits for, which will never run again
        for ticket in tickets:
            ticket.wake = self.wake

    def wake(self) -> None:
        """Wake the task, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:  # the loop was closed
            self._abandon()

    async def wait(self, until: float) -> None:
        """Until it is woken since the last wait, or that time has come."""
        timer = self._loop.call_later(max(min(until - now(), _SLEEP_S), 0.0), self._event.set)
        try:
            await self._event.wait()
            self._event.clear()
        finally:
            timer.cancel()


async def _run(engine: Engine, acquisition: Acquisition | CohortTurn) -> bool:
    woken = _Wakeups(acquisition.wakes, abandon=partial(engine.abandon, acquisition))
    if isinstance(acquisition, Acquisition):
        acquisition.ticket.waiter = partial(_unless_closed, asyncio.get_running_loop(), ref(acquisition))
    while True:
        step = engine.apply(acquisition.next)
        if step is None:
            return acquisition.is_held
        if not isinstance(step, Send):
            await woken.wait(step.until)
        elif isinstance(step.request, TimeToLive):
            await _ask_ttl(engine, acquisition, step.request, step.timeout)
        else:
            await _send(engine, acquisition, step)


async def _send(engine: Engine, sender: Acquisition | CohortTurn | Together, step: Send) -> None:
    sent: Future[Any] | None = None
    try:
        async with _writes.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_WRITES)):
            sent = engine.send(sender, step.request, step.timeout)
            await _outcome(engine, sender, step.request, sent)
    except BaseException as error:
        if sent is None:  # the task was cancelled in line: no answer will ever come
            engine.apply(sender.failed, step.request, EtcdUnavailable(f"was not sent: {error!r}"))
        raise


def _unless_closed(loop: asyncio.AbstractEventLoop, waiter: Callable[[], object]) -> object:
    """What waits, in a loop; None once the loop is closed, even where its tasks are kept."""
    return None if loop.is_closed() else waiter()


async def _ask_ttl(engine: Engine, acquisition: Acquisition | CohortTurn, request: TimeToLive, timeout: float) -> None:
    status = engine.time_to_live(request.lease_id)
    try:
        await asyncio.wait_for(_done(status), timeout)
        engine.apply(acquisition.answered, request, status.result().ttl)
    except (EtcdError, asyncio.TimeoutError) as error:
        engine.apply(acquisition.failed, request, error)


def _outcome(engine: Engine, sender: Any, request: Any, sent: Future[Any]) -> asyncio.Future[None]:
    """Done when `sender` was told the answer, by the thread that gets it."""
    return _done(sent, partial(engine.exchange, sender, request, answer_of=sent.result))


def _done(sent: Future[Any], take: Callable[[], object] = lambda: None) -> asyncio.Future[None]:
    """Done when `sent` is, and when the thread that gets the answer has called `take`.

    Cancelled, it leaves `sent` alone: others may wait for that, and its answer is needed.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not done.done():  # a task that was cancelled waits no more
            done.set_result(None)

    def wake(_: Future[Any]) -> None:
        take()
        call_in(loop, settle)

    sent.add_done_callback(wake)
    return done
