"""What runs while a lock is held: the body of a decorated function, and that of `with`, left by whichever thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

import lock
from lock import Client, LockTimeout, MultiLock, Mutex, NotHeld, ReentrantMutex, Semaphore, Session, aio
from tests.support.lock import WAIT_S, await_keys, in_a_loop, keys
from tests.support.waiting import assert_raises, in_thread


def test_a_function_runs_while_the_lock_is_held(client: Client, mutex: Mutex, theirs: Mutex) -> None:
    """It gets its arguments and returns its answer; its hold is within reach, and released also when it raises.

    Without the lock it does not run.
    """
    calls: list[int] = []

    @mutex.synchronized(timeout=0)
    def divide(a: int, *, by: int) -> int:
        calls.append(by)
        assert keys(client, mutex.name) == [mutex.current().key]
        return a // by

    assert divide.__name__ == "divide"
    assert divide(6, by=2) == 3
    assert_raises(ZeroDivisionError, divide, 1, by=0)
    assert keys(client, mutex.name) == []
    assert_raises(NotHeld, mutex.current)
    with theirs.acquire(timeout=WAIT_S):
        assert_raises(LockTimeout, divide, 1, by=1)
    assert calls == [2, 0]


async def coroutine() -> None: ...


def generator() -> Iterator[None]:
    yield


async def asynchronous_generator() -> AsyncIterator[None]:
    yield


class Called:
    async def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("kit", "function"),
    [
        *((lock, each) for each in (coroutine, generator, asynchronous_generator, Called(), partial(coroutine), 5)),
        *((aio, each) for each in (generator, asynchronous_generator, len, 5)),
    ],
)
def test_what_would_run_after_the_release_is_refused(session: Session, name: str, kit: Any, function: object) -> None:
    """When it is decorated: a generator runs when its call has returned, and a coroutine is for tasks alone."""
    assert_raises(TypeError, kit.Mutex(session, name).synchronized(), function)


def test_a_wrong_timeout_is_refused_when_it_is_written(session: Session, mutex: Mutex) -> None:
    """The decorator raises, not the first call."""
    for decorator in (mutex.synchronized, aio.Mutex(session, mutex.name).synchronized):
        assert_raises(ValueError, decorator, timeout=-1, match="timeout")


@in_a_loop
async def test_a_coroutine_function_runs_while_its_task_holds(client: Client, session: Session, theirs: Mutex) -> None:
    """With its hold within reach; without the lock it does not run; each task has a hold of its own."""
    mutex, calls = aio.Mutex(session, theirs.name), list[int]()

    async def sell(number: int) -> int:
        calls.append(number)
        return mutex.current().token

    sells = mutex.synchronized(timeout=WAIT_S)(sell)
    first, second = await asyncio.gather(sells(1), sells(2))
    assert first != second
    assert sorted(calls) == [1, 2]
    assert keys(client, theirs.name) == []
    with theirs.acquire(timeout=WAIT_S), pytest.raises(LockTimeout):
        await mutex.synchronized(timeout=0)(sell)(3)
    assert 3 not in calls


# `with mutex:` is left by another thread or task than has entered it, as generators and fixtures do


@pytest.mark.parametrize("kind", [Mutex, MultiLock])
def test_another_thread_leaves_what_one_has_entered(
    client: Client, session: Session, name: str, kind: type[Mutex | MultiLock]
) -> None:
    """As a web framework does with a dependency that is a generator; and it may do so with an error."""
    lock = kind(session, name if kind is Mutex else [name])  # type: ignore[arg-type]

    def dependency() -> Iterator[None]:
        with lock:
            yield

    for leave in (lambda each: next(each, None), lambda each: each.close()):
        entered = dependency()
        in_thread(next, entered).result(WAIT_S)
        in_thread(leave, entered).result(WAIT_S)
        await_keys(client, name, 0)


def test_what_may_be_another_ones_is_not_left(session: Session, name: str) -> None:
    """Of several that others have entered, none; of a reentrant one, by its owner alone. A thread leaves its own."""
    permits = Semaphore(session, f"{name}/permits", 3)
    entered = [in_thread(permits.__enter__).result(WAIT_S) for _ in range(2)]
    with permits:
        pass
    assert_raises(NotHeld, permits.__exit__, None, None, None, match="2 are entered")
    for permit in entered:
        permit.release()
    assert_raises(NotHeld, permits.__exit__, None, None, None, match="none is entered")
    with (mutex := ReentrantMutex(session, f"{name}/mutex")) as hold:
        assert_raises(NotHeld, in_thread(mutex.__exit__, None, None, None).result, WAIT_S)
        hold.ensure()


@in_a_loop
async def test_another_task_leaves_what_one_has_entered(client: Client, session: Session, name: str) -> None:
    """An async generator that is left by `break` is closed by a task of the loop's own, or by the next task."""
    mutex = aio.Mutex(session, name)

    async def rows() -> AsyncIterator[int]:
        async with mutex:
            yield 1

    left = rows()
    await asyncio.create_task(left.__anext__())  # type: ignore[arg-type]
    await left.aclose()  # type: ignore[attr-defined]
    await asyncio.to_thread(await_keys, client, name, 0)
    await asyncio.create_task(mutex.__aenter__())
    await mutex.__aexit__(None, None, None)  # as a fixture that is torn down in another task
    await asyncio.to_thread(await_keys, client, name, 0)
