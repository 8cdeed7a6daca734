"""Locks for asyncio: what only tasks can do, and what becomes of a body whose lock is lost."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from loadtest.stack.proxy import Proxy
from lock import (
    Client,
    HoldExpired,
    LockError,
    LockLost,
    Mutex,
    NotHeld,
    Session,
    SessionLost,
    UpgradeRefused,
    aio,
    connect,
)
from lock.aio.driver import Drive
from lock.core.acquisition import Sleep
from lock.etcd import transport
from tests.support.lock import WAIT_S, await_keys, delete, in_a_loop, keys
from tests.support.waiting import Patch, in_thread, wait_until


async def queued(client: Client, name: str, number: int) -> None:
    await asyncio.to_thread(await_keys, client, name, number)


@in_a_loop
async def test_a_turn_that_comes_before_its_wait_begins_is_seen(
    session: Session, name: str, monkeypatch: Patch
) -> None:
    """The answer to its write came, its wait has not begun yet, and the lock is free meanwhile: it holds at once."""
    begin, hold = Drive._begin, Mutex(session, name).acquire(timeout=WAIT_S)
    before = [in_thread(lambda: Mutex(session, name).acquire(timeout=WAIT_S).release()) for _ in range(2)]
    await queued(session.client, name, 3)
    [queue] = session._engine.core.queues.values()  # which is followed for them
    await asyncio.to_thread(wait_until, lambda: queue.is_listed and queue.is_watched)

    def begin_late(drive: Drive[Any], step: Any) -> None:
        if isinstance(step, Sleep) and drive._is_sending and not hold.released:
            hold.release()
            [each.result(WAIT_S) for each in before]
        begin(drive, step)

    monkeypatch.setattr(Drive, "_begin", begin_late)
    acquired = asyncio.create_task(aio.Mutex(session, name).acquire(timeout=WAIT_S * 3))
    await asyncio.wait({acquired}, timeout=WAIT_S)
    assert hold.released
    await acquired.result().release()


@in_a_loop
async def test_a_task_may_be_cancelled_at_any_moment(
    client: Client, session: Session, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Before its key is written, while it waits, when its turn comes, in the release: no key and no hold is left."""
    chance = random.Random(3)

    async def work() -> None:
        async with aio.Mutex(session, name).acquire(timeout=WAIT_S):
            await asyncio.sleep(chance.uniform(0, 0.002))

    for _ in range(60):
        tasks = [asyncio.create_task(work()) for _ in range(6)]
        for task in tasks:
            await asyncio.sleep(chance.uniform(0, 0.004))
            task.cancel()
        await asyncio.wait(tasks)
    del tasks, task
    gc.collect()
    assert "without a release" not in caplog.text  # no hold was merely dropped
    async with aio.Mutex(session, name).acquire(timeout=WAIT_S):
        pass
    await queued(client, name, 0)


@pytest.mark.parametrize("at_its_turn", [True, False])
def test_a_closed_loop_leaves_no_key(
    client: Client, session: Session, name: str, at_its_turn: bool, monkeypatch: Patch
) -> None:
    """A task whose loop is closed while it waits never runs again: its key goes, at its turn at the latest."""
    if at_its_turn:
        monkeypatch.setattr(session._engine.core.reconciler, "_period", WAIT_S * 10)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # "Task was destroyed but it is pending", as it has to be
    with Mutex(session, name).acquire(timeout=WAIT_S):
        task = loop.create_task(aio.Mutex(session, name).acquire().__aenter__())
        loop.run_until_complete(queued(client, name, 2))
        loop.close()
        if not at_its_turn:
            await_keys(client, name, 1)
    await_keys(client, name, 0)
    assert not task.done()


@pytest.mark.parametrize(
    "make",
    [
        lambda s, n: aio.Mutex(s, n).acquire(timeout=WAIT_S),
        lambda s, n: aio.MultiLock(s, [f"{n}/a", f"{n}/b"]).acquire(timeout=WAIT_S),
        aio.Mutex,
        aio.ReentrantMutex,
    ],
)
def test_a_loop_that_is_closed_in_a_critical_section_frees_the_lock(
    client: Client, session: Session, name: str, make: Callable[[Session, str], Any]
) -> None:
    """When its task is discarded: `async with` cannot wait any more, so the session releases."""
    loop, inside = asyncio.new_event_loop(), asyncio.Event()
    loop.set_exception_handler(lambda *_: None)  # as above

    async def hold() -> None:
        async with make(session, name):
            inside.set()
            await asyncio.get_running_loop().create_future()

    task = loop.create_task(hold())
    loop.run_until_complete(inside.wait())
    loop.close()
    assert keys(client, name)
    task.get_coro().close()
    await_keys(client, name, 0)


@pytest.mark.flaky(reruns=1, reason="the longest pause of an event loop")
def test_no_step_waits_for_etcd_or_the_loops_thread(
    client: Client, proxy: Proxy, name: str, monkeypatch: Patch
) -> None:
    """While etcd does not answer the loop goes on, whatever tasks want: it is the loop that lets etcd answer again.

    All threads of the loop may be taken meanwhile, also by waits for this very lock.
    """
    monkeypatch.setattr(transport, "_CHANNEL_OPTIONS", ())  # no ping ends a call before its deadline
    pauses, free = list[float](), threading.Event()

    async def main(session: Session) -> None:
        loop, mutex = asyncio.get_running_loop(), aio.Mutex(session, name)
        lock = aio.ReadWriteLock(session, f"{name}/rw")
        loop.set_default_executor(ThreadPoolExecutor(1))
        taken = loop.run_in_executor(None, free.wait)
        hold, writer = await mutex.acquire(timeout=WAIT_S), await lock.write.acquire(timeout=WAIT_S)
        first = asyncio.create_task(mutex.acquire(timeout=0.7).__aenter__())
        while len(keys(client, name)) < 3:
            await asyncio.sleep(0.01)
        proxy.stall()
        second = mutex.acquire(timeout=0.3).__aenter__()
        others = [lock.read.try_acquire(), mutex.contenders(), mutex.locked(), hold.release(), writer.downgrade()]
        calls = asyncio.gather(first, second, *others, return_exceptions=True)
        end = time.monotonic() + 1.0
        while (began := time.monotonic()) < end:
            await asyncio.sleep(0.005)
            pauses.append(time.monotonic() - began)
        assert not calls.done()
        proxy.resume()
        for outcome in await asyncio.wait_for(calls, WAIT_S):
            if isinstance(outcome, aio.Hold):
                await outcome.release()
        free.set()
        await taken

    with connect(proxy.endpoint, timeout=WAIT_S) as far, Session(far, ttl=600) as session:
        asyncio.run(main(session))
    assert max(pauses) < WAIT_S / 2


@in_a_loop
async def test_a_cancelled_entry_is_taken_back_alone(client: Client, session: Session, name: str) -> None:
    """The hold that it entered goes on; and where it would have been the first, the task may acquire again."""
    mutex, task = aio.ReentrantMutex(session, name), asyncio.current_task()
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await mutex.try_acquire()
    await asyncio.gather(*(asyncio.all_tasks() - {task}), return_exceptions=True)
    async with mutex.acquire(timeout=WAIT_S) as outer:
        outer.ensure()
        assert keys(client, name) == [outer.key]
    await queued(client, name, 0)


@pytest.mark.parametrize("through", [asyncio.ensure_future, asyncio.gather, partial(asyncio.wait_for, timeout=WAIT_S)])
@in_a_loop
async def test_the_owner_is_the_task_that_called(client: Client, session: Session, name: str, through: Any) -> None:
    """Whatever task runs the acquisition or the release: it enters again, and alone releases."""
    mutex, lock = aio.ReentrantMutex(session, name), aio.ReadWriteLock(session, f"{name}/rw")
    for _ in range(2):
        await through(mutex.acquire(timeout=WAIT_S))
        outer = mutex.current()
        await through(mutex.acquire(timeout=WAIT_S))
        assert mutex.current().token == outer.token
        await through(mutex.current().release())
        await mutex.release()
    await through(lock.read.acquire(timeout=WAIT_S))
    with pytest.raises(UpgradeRefused):
        await through(lock.write.acquire(timeout=WAIT_S))
    await lock.read.release()
    await queued(client, name, 0)


@in_a_loop
async def test_an_acquisition_is_awaited_once(client: Client, session: Session, name: str) -> None:
    """By a task as well, for the one that has called `acquire`; what nothing awaits warns, and does nothing."""
    mutex = aio.Mutex(session, name)
    hold = await asyncio.create_task(mutex.acquire(timeout=WAIT_S))
    assert mutex.current().token == hold.token
    await mutex.release()
    with pytest.warns(RuntimeWarning, match="never awaited"):
        mutex.acquire()
    waiting = mutex.acquire()
    async with waiting:
        with pytest.raises(RuntimeError, match="already awaited"):
            await waiting
    assert keys(client, name) == []


@in_a_loop
async def test_a_proclamation_and_a_downgrade(client: Client, session: Session, name: str) -> None:
    """As they are for threads."""
    async with aio.Election(session, f"{name}/e").campaign("one", timeout=WAIT_S) as leadership:
        await leadership.proclaim("two")
        assert [kv.value for kv in client.get_prefix(f"{name}/e/").keys] == [b"two"]
    lock = aio.ReadWriteLock(session, f"{name}/rw")
    writer = await lock.write.acquire(timeout=WAIT_S)
    async with await writer.downgrade() as reader, lock.read.acquire(timeout=WAIT_S):
        assert reader.token == writer.token
        with pytest.raises(UpgradeRefused):
            await lock.write.acquire(timeout=WAIT_S)
    for writing in (lock.write.acquire(timeout=WAIT_S), lock.write):
        async with writing as writer:
            await writer.downgrade()
    assert await lock.write.try_acquire() is not None


# cancel_on_lost

Body = Callable[[aio.AsyncHold[Any]], Awaitable[object]]

counted = pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks count cancellations from Python 3.11 on")


async def forever(_: object) -> None:
    await asyncio.wait_for(asyncio.Event().wait(), WAIT_S)


async def error_of(acquiring: aio.Acquiring[Any], body: Body) -> type[BaseException] | None:
    """What leaves the ``async with``; the task can go on."""
    try:
        async with acquiring as hold:
            await body(hold)
    except (LockError, ValueError) as error:
        await asyncio.sleep(0)
        assert getattr(asyncio.current_task(), "cancelling", int)() == 0
        return type(error)
    return None


@in_a_loop
async def test_a_loss_ends_the_body_of_each_recipe(client: Client, session: Session, name: str) -> None:
    """A holder's key is deleted by hand, or the lease is gone: the body is cancelled, the loss leaves or is awaited."""
    acquisitions: list[aio.Acquiring[Any]] = [
        aio.Mutex(session, f"{name}-1").acquire(cancel_on_lost=True),
        aio.MultiLock(session, [f"{name}-2", f"{name}-3"]).acquire(cancel_on_lost=True),
        aio.CohortMutex(session, f"{name}-4").acquire(cancel_on_lost=True),
        aio.Election(session, f"{name}-5").campaign("me", cancel_on_lost=True),
    ]
    bodies = [asyncio.create_task(error_of(each, forever)) for each in acquisitions]
    waited_for = await aio.Mutex(session, f"{name}-6").acquire(timeout=WAIT_S)
    assert not waited_for.lost.is_set()
    for number in (1, 3, 4, 5, 6):
        await asyncio.to_thread(await_keys, client, f"{name}-{number}", 1)
        await asyncio.to_thread(delete, client, keys(client, f"{name}-{number}")[0])
    assert await asyncio.gather(*bodies) == [LockLost] * 4
    await asyncio.wait_for(waited_for.lost, WAIT_S)
    assert waited_for.lost.is_set()
    await asyncio.to_thread(await_keys, client, f"{name}-2", 0)

    async def revoke(hold: aio.AsyncHold[Any]) -> None:
        await asyncio.to_thread(client.revoke, session.lease_id)
        try:
            await forever(hold)
        finally:
            with suppress(LockLost):
                await hold.release()

    assert await error_of(aio.Mutex(session, name).acquire(cancel_on_lost=True), revoke) is SessionLost


@counted
@pytest.mark.parametrize("max_hold", [None, 0.01], ids=["no loss", "loss"])
@in_a_loop
async def test_another_cancellation_remains_one(
    client: Client, session: Session, name: str, max_hold: float | None
) -> None:
    """The task is cancelled from elsewhere, perhaps after a loss: `CancelledError` leaves it, not `LockLost`."""
    ready = asyncio.Event()

    async def body(hold: aio.AsyncHold[Any]) -> None:
        if max_hold:
            with suppress(asyncio.CancelledError):
                await forever(hold)
        ready.set()
        await forever(hold)

    mutex = aio.Mutex(session, name, max_hold=max_hold)
    task = asyncio.create_task(error_of(mutex.acquire(cancel_on_lost=True), body))
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(await_keys, client, name, 0)


async def fail(hold: aio.AsyncHold[Any]) -> None:
    try:
        await forever(hold)
    except asyncio.CancelledError:
        raise ValueError("half done") from None


async def end(hold: aio.AsyncHold[Any]) -> None:
    assert hold._held.lost.wait(WAIT_S)  # blocks the loop, which has not heard of it


async def release_and_go_on(hold: aio.AsyncHold[Any]) -> None:
    await end(hold)
    with suppress(LockLost):
        await hold.release()
    await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("body", "error"),
    [(forever, HoldExpired), (fail, ValueError), (end, HoldExpired), (release_and_go_on, NotHeld)],
)
@in_a_loop
async def test_a_body_that_has_ended_is_not_cancelled(session: Session, name: str, body: Body, error: type) -> None:
    """After `max_hold` the loss leaves, or the body's own error; a body that was over, or had released, goes on."""
    mutex = aio.Mutex(session, name, max_hold=0.01)
    assert await error_of(mutex.acquire(cancel_on_lost=True), body) is error


@in_a_loop
async def test_there_is_a_body_to_cancel(session: Session, name: str) -> None:
    """A hold that is merely awaited has none: `TypeError` says to write ``async with``."""
    with pytest.raises(TypeError, match="async with"):
        await aio.Mutex(session, name).acquire(cancel_on_lost=True)
