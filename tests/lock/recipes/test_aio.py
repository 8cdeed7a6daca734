"""Locks for asyncio: what only tasks can do."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from loadtest.stack.proxy import Proxy
from lock import (
    Client,
    LockLost,
    LockTimeout,
    Mutex,
    NotHeld,
    Session,
    SessionLost,
    UpgradeRefused,
    aio,
)
from tests.support.lock import AT_ONCE_S, WAIT_S, in_thread, keys, queue_up
from tests.support.waiting import wait_until


def run(steps: Coroutine[Any, Any, Any]) -> Any:
    """What these steps return, in asyncio's debug mode."""
    return asyncio.run(steps, debug=True)


async def queued(client: Client, name: str, number: int) -> None:
    """Until so many keys queue."""
    while len(await asyncio.to_thread(keys, client, name)) != number:
        await asyncio.sleep(0.01)


def test_threads_and_tasks_share_a_session_and_a_queue(client: Client, session: Session, name: str) -> None:
    """One counter, incremented by both under one lock: nothing is lost, and in the end nothing is left."""
    counter = 0

    def increment() -> None:
        nonlocal counter
        seen = counter
        time.sleep(0)
        counter = seen + 1

    def threads() -> None:
        for _ in range(25):
            with Mutex(session, name).acquire(timeout=WAIT_S):
                increment()

    async def task() -> None:
        for _ in range(25):
            async with aio.Mutex(session, name).acquire(timeout=WAIT_S) as hold:
                hold.ensure()
                increment()

    async def main() -> None:
        await asyncio.gather(*[asyncio.to_thread(threads) for _ in range(4)], *[task() for _ in range(4)])

    run(main())
    assert counter == 200
    assert keys(client, name) == []


def test_two_thousand_tasks_wait_without_a_thread(client: Client, session: Session, name: str) -> None:
    """Their keys queue; there are as many threads as before; all are served."""

    async def one() -> int:
        async with aio.Mutex(session, name).acquire(timeout=60) as hold:
            return hold.token

    async def main() -> list[int]:
        async with aio.Mutex(session, name).acquire(timeout=WAIT_S):
            await queued(client, name, 1)
            before = threading.active_count()
            tasks = [asyncio.create_task(one()) for _ in range(2000)]
            await queued(client, name, 2001)
            assert threading.active_count() <= before + 2
        return await asyncio.gather(*tasks)

    assert len(set(asyncio.run(main()))) == 2000
    wait_until(lambda: keys(client, name) == [])


def test_a_task_may_be_cancelled_at_any_moment(client: Client, session: Session, name: str) -> None:
    """Before its key is written, while it waits, when its turn comes, in the release: no key and no hold is left."""
    chance = random.Random(3)

    async def work() -> None:
        async with aio.Mutex(session, name).acquire(timeout=WAIT_S):
            await asyncio.sleep(chance.uniform(0, 0.002))

    async def main() -> None:
        for _ in range(60):
            tasks = [asyncio.create_task(work()) for _ in range(6)]
            for task in tasks:
                await asyncio.sleep(chance.uniform(0, 0.004))
                task.cancel()
            await asyncio.wait(tasks)
        async with aio.Mutex(session, name).acquire(timeout=AT_ONCE_S):
            pass

    run(main())
    wait_until(lambda: keys(client, name) == [])


def test_a_cancelled_task_leaves_no_key_when_it_ends(
    client: Client, session: Session, stranger: Session, name: str
) -> None:
    """As soon as the task is over its key is gone, and the holder is undisturbed."""

    async def main() -> None:
        task = asyncio.create_task(aio.Mutex(session, name).acquire().__aenter__())
        await queued(client, name, 2)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    with Mutex(stranger, name).acquire(timeout=WAIT_S) as hold:
        run(main())
        assert keys(client, name) == [hold.key]


def test_a_task_is_cancelled_at_once_while_etcd_does_not_answer(
    client: Client, far_session: Session, proxy: Proxy, name: str
) -> None:
    """It does not wait for the outage to end; what it has written is deleted afterwards."""

    async def main() -> None:
        mutex = aio.Mutex(far_session, name)
        async with mutex.acquire(timeout=WAIT_S):
            proxy.stall()
            task = asyncio.create_task(mutex.acquire().__aenter__())
            await asyncio.sleep(0.1)
            task.cancel()
            began = time.monotonic()
            await asyncio.wait([task])
            assert time.monotonic() - began < AT_ONCE_S
            proxy.resume()

    run(main())
    wait_until(lambda: keys(client, name) == [])


def test_a_loss_can_be_awaited(client: Client, session: Session, name: str) -> None:
    """The key is deleted by hand: the task that waits for the loss wakes up, and the release says so."""

    async def main() -> None:
        hold = await aio.Mutex(session, name).acquire(timeout=WAIT_S)
        assert not hold.lost.is_set()
        client.delete(hold.key, None)
        await asyncio.wait_for(hold.lost.wait(), WAIT_S)
        await hold.lost
        assert hold.lost.is_set()
        with pytest.raises(LockLost):
            await hold.release()

    run(main())


def test_no_step_waits_for_etcd(client: Client, far_session: Session, proxy: Proxy, name: str) -> None:
    """While etcd does not answer (each call takes a second), the loop goes on, whatever tasks want of a lock."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - began)

    async def main() -> None:
        mutex, lock = aio.Mutex(far_session, name), aio.ReadWriteLock(far_session, f"{name}/rw")
        hold, writer = await mutex.acquire(timeout=WAIT_S), await lock.write.acquire(timeout=WAIT_S)
        first = asyncio.create_task(mutex.acquire(timeout=0.7).__aenter__())
        await queued(client, name, 3)
        ticking = asyncio.create_task(tick())
        proxy.stall()
        await asyncio.gather(
            first,
            mutex.acquire(timeout=0.3).__aenter__(),
            lock.read.try_acquire(),
            mutex.contenders(),
            hold.release(),
            writer.downgrade(),
            return_exceptions=True,
        )
        ticking.cancel()
        proxy.resume()

    asyncio.run(main())
    assert 0 < longest < 0.5
    wait_until(lambda: keys(client, name) == [])


def test_a_session_that_is_lost_ends_all_waits(client: Client, name: str) -> None:
    """Each task is told SessionLost, as threads are."""

    async def main(session: Session) -> None:
        async def wait() -> None:
            await aio.Semaphore(session, name, 1).acquire()

        tasks = [asyncio.create_task(wait()) for _ in range(20)]
        await queued(client, name, 21)
        client.revoke(session.lease_id)
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, SessionLost)

    with Session(client, ttl=60) as session, pytest.raises(LockLost), Mutex(session, name).acquire(timeout=WAIT_S):
        run(main(session))


def test_a_task_enters_again_and_alone_releases(session: Session, name: str) -> None:
    """A reentrant mutex belongs to the task, not to its thread."""

    async def main() -> None:
        mutex = aio.ReentrantMutex(session, name)
        async with mutex.acquire(timeout=WAIT_S) as outer, mutex.acquire(timeout=WAIT_S) as inner:
            assert inner.token == outer.token
            with pytest.raises(NotHeld):
                await asyncio.create_task(inner.release())
            with pytest.raises(LockTimeout):
                await asyncio.create_task(mutex.acquire(timeout=0.05).__aenter__())

    run(main())


def test_several_names_an_election_and_a_downgrade(client: Client, session: Session, name: str) -> None:
    """The other recipes, as they are for threads."""

    async def main() -> None:
        async with aio.MultiLock(session, [f"{name}/a", f"{name}/b"]).acquire(timeout=WAIT_S) as both:
            assert set(both.tokens) == {f"{name}/a", f"{name}/b"}
        async with aio.Election(session, f"{name}/e").campaign("one", timeout=WAIT_S) as leadership:
            await leadership.proclaim("two")
            assert [kv.value for kv in client.get_prefix(f"{name}/e/").keys] == [b"two"]
        lock = aio.ReadWriteLock(session, f"{name}/rw")
        writer = await lock.write.acquire(timeout=WAIT_S)
        async with await writer.downgrade() as reader, lock.read.acquire(timeout=WAIT_S):
            assert reader.token == writer.token
            with pytest.raises(UpgradeRefused):
                await lock.write.acquire(timeout=WAIT_S)
        assert await lock.write.try_acquire() is not None

    run(main())


def test_it_runs_on_uvloop(session: Session, name: str) -> None:
    """Where uvloop is installed."""
    uvloop = pytest.importorskip("uvloop")

    async def main() -> int:
        async with aio.Mutex(session, name).acquire(timeout=WAIT_S) as hold:
            return hold.token

    loop = uvloop.new_event_loop()
    assert loop.run_until_complete(main()) > 0
    loop.close()


def test_a_thread_waits_behind_a_task(client: Client, session: Session, name: str) -> None:
    """And holds as soon as the task has released."""

    async def main() -> None:
        hold = await aio.Mutex(session, name).acquire(timeout=WAIT_S)
        waiting = await asyncio.to_thread(queue_up, client, Mutex(session, name))
        await hold.release()
        (await asyncio.to_thread(waiting.result, WAIT_S)).release()

    in_thread(run, main()).result(WAIT_S)
