"""The decorator `synchronized`: the body of a function or coroutine function runs while the lock is held, or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

import lock
from lock import Client, LockTimeout, Mutex, NotHeld, Session, aio
from tests.support.lock import WAIT_S, in_a_loop, keys
from tests.support.waiting import assert_raises


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
