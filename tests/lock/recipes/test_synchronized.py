"""The decorator `synchronized`: the body of a function or coroutine function runs while the lock is held, or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

import lock
from lock import Client, LockTimeout, Mutex, NotHeld, Session, aio
from tests.support.lock import WAIT_S, keys
from tests.support.waiting import assert_raises


def test_a_function_runs_while_the_lock_is_held(client: Client, mutex: Mutex) -> None:
    """It gets its arguments and returns its answer; its hold is within reach, and released also when it raises."""

    @mutex.synchronized(timeout=WAIT_S)
    def divide(a: int, *, by: int) -> tuple[int, list[str]]:
        return a // by, [mutex.current().key, *keys(client, mutex.name)]

    answer, (mine, held) = divide(6, by=2)
    assert (answer, mine, divide.__name__) == (3, held, "divide")
    assert_raises(ZeroDivisionError, divide, 1, by=0)
    assert keys(client, mutex.name) == []
    assert_raises(NotHeld, mutex.current)


def test_a_function_does_not_run_unlocked(mutex: Mutex, theirs: Mutex) -> None:
    """A call that does not get the lock in time raises, and the body does not run."""
    calls: list[str] = []
    with theirs.acquire(timeout=WAIT_S):
        assert_raises(LockTimeout, mutex.synchronized(timeout=0)(calls.append), "ran")
    assert calls == []


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
        with pytest.raises(ValueError, match="timeout"):
            decorator(timeout=-1)


def test_a_coroutine_function_runs_while_its_task_holds(client: Client, session: Session, theirs: Mutex) -> None:
    """With its hold within reach; without the lock it does not run; each task has a hold of its own."""
    mutex = aio.Mutex(session, theirs.name)
    calls: list[int] = []

    @mutex.synchronized(timeout=WAIT_S)
    async def sell(number: int) -> int:
        calls.append(number)
        assert len(await asyncio.to_thread(keys, client, mutex._recipe.name)) >= 1
        return mutex.current().token

    async def sell_twice() -> list[int]:
        return list(await asyncio.gather(sell(1), sell(2)))

    first, second = asyncio.run(sell_twice())
    assert first != second
    assert sorted(calls) == [1, 2]
    assert keys(client, theirs.name) == []

    async def try_to_sell() -> None:
        await mutex.synchronized(timeout=0)(sell)(3)

    with theirs.acquire(timeout=WAIT_S), pytest.raises(LockTimeout):
        asyncio.run(try_to_sell())
    assert 3 not in calls
