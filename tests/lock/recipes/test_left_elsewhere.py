"""`with mutex:` that is left by another thread or task than has entered it, as generators and fixtures do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from lock import Client, MultiLock, Mutex, NotHeld, ReentrantMutex, Semaphore, Session, aio
from tests.support.lock import WAIT_S, await_keys, in_a_loop
from tests.support.waiting import assert_raises, in_thread


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
