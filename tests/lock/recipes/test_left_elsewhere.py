"""`with mutex:` that is left by another thread or task than has entered it, as generators and fixtures do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from lock import Client, MultiLock, Mutex, NotHeld, ReentrantMutex, Semaphore, Session, aio
from tests.support.lock import WAIT_S, await_keys, in_a_loop
from tests.support.waiting import assert_raises, in_thread

MAKE: dict[str, Callable[[Session, str], Mutex | MultiLock]] = {
    "Mutex": Mutex,
    "MultiLock": lambda session, name: MultiLock(session, [name]),
}


@pytest.mark.parametrize("recipe", MAKE)
def test_another_thread_leaves_what_one_has_entered(client: Client, session: Session, name: str, recipe: str) -> None:
    """As a web framework does with a dependency that is a generator; and it may do so with an error."""
    mutex = MAKE[recipe](session, name)

    def dependency() -> Iterator[None]:
        with mutex:
            yield

    for leave in (lambda each: next(each, None), lambda each: each.close()):
        entered = dependency()
        in_thread(next, entered).result(WAIT_S)
        in_thread(leave, entered).result(WAIT_S)
        await_keys(client, name, 0)


def test_of_several_that_others_have_entered_none_is_left(session: Session, name: str) -> None:
    """It cannot be known which one is meant; a thread that has entered one itself leaves that."""
    permits = Semaphore(session, name, 3)
    entered = [in_thread(permits.__enter__).result(WAIT_S) for _ in range(2)]
    with permits:
        pass
    assert_raises(NotHeld, permits.__exit__, None, None, None, match="2 are entered")
    for permit in entered:
        permit.release()
    assert_raises(NotHeld, permits.__exit__, None, None, None, match="none is entered")


def test_a_reentrant_mutex_is_left_by_its_owner_alone(session: Session, name: str) -> None:
    """Another thread that closes what it has entered is told so."""
    mutex = ReentrantMutex(session, name)
    with mutex as hold:
        assert_raises(NotHeld, in_thread(mutex.__exit__, None, None, None).result, WAIT_S)
        hold.ensure()


@in_a_loop
async def test_an_async_generator_that_is_left_by_break_frees_its_lock(
    client: Client, session: Session, name: str
) -> None:
    """It is closed by a task of the loop's own, or by the next task; nothing stays locked."""
    mutex = aio.Mutex(session, name)

    async def rows() -> AsyncIterator[int]:
        async with mutex:
            for number in range(3):
                yield number

    async def read_one() -> AsyncIterator[int]:
        left = rows()
        async for _ in left:
            break
        return left

    left = await asyncio.create_task(read_one())
    await left.aclose()  # type: ignore[attr-defined]
    await asyncio.to_thread(await_keys, client, name, 0)
    await asyncio.create_task(mutex.__aenter__())
    await mutex.__aexit__(None, None, None)  # as a fixture that is torn down in another task
    await asyncio.to_thread(await_keys, client, name, 0)
