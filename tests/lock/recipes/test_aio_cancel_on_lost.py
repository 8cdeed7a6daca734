"""`acquire(cancel_on_lost=True)`: the body of a task ends when its lock is lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from lock import Client, HoldExpired, LockError, LockLost, NotHeld, Session, SessionLost, aio
from tests.support.lock import WAIT_S, await_keys, delete, in_a_loop, keys

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
    """The holder's key is deleted by hand, or the lease is gone: the body is cancelled, and the loss leaves."""
    acquisitions: list[aio.Acquiring[Any]] = [
        aio.Mutex(session, f"{name}-1").acquire(cancel_on_lost=True),
        aio.MultiLock(session, [f"{name}-2", f"{name}-3"]).acquire(cancel_on_lost=True),
        aio.CohortMutex(session, f"{name}-4").acquire(cancel_on_lost=True),
        aio.Election(session, f"{name}-5").campaign("me", cancel_on_lost=True),
    ]
    bodies = [asyncio.create_task(error_of(each, forever)) for each in acquisitions]
    for number in (1, 3, 4, 5):
        await asyncio.to_thread(await_keys, client, f"{name}-{number}", 1)
        await asyncio.to_thread(delete, client, keys(client, f"{name}-{number}")[0])
    assert await asyncio.gather(*bodies) == [LockLost] * 4
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
