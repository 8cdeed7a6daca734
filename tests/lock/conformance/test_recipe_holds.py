"""Conformance of every recipe, for threads and for tasks, cases m to q: what becomes of waits and holds."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from lock import Client, Created, LockCancelled, LockLost, LockTimeout, Mutex, NotHeld, Session, SessionLost
from tests.lock.conformance.recipes import MULTI, MUTEX, REENTRANT, Face, Loop, Make, Recipe, every
from tests.support.lock import WAIT_S, await_keys, delete, keys, lock_threads, queue_up
from tests.support.waiting import assert_goes_on, assert_raises, in_thread, wait_until

# m: cancellation


def test_m_one_wait_is_cancelled(make: Make, face: Face, theirs: Face, client: Client, session: Session) -> None:
    """By its token, or by the cancellation of its task: it leaves no key, and other waits and holds go on."""
    with theirs.acquire() as held:
        other = in_thread(make(session).turn)
        await_keys(client, face.name, 2)
        waiting, cancel = face.cancellable()
        await_keys(client, face.name, 3)
        cancel()
        assert_raises(face.cancelled, waiting.result, WAIT_S)
        await_keys(client, face.name, 2)
        held.ensure()
    other.result(WAIT_S)


@pytest.mark.parametrize("holder", ["ours", "theirs"])
def test_m_cancel_ends_the_waits_and_no_hold(face: Face, theirs: Face, client: Client, holder: str) -> None:
    """Waiters of the object get LockCancelled and leave no key; holds, and waits elsewhere or later, go on."""
    if not hasattr(face.lock, "cancel"):
        pytest.skip("has no cancel")
    if face.recipe.together > 1 and holder == "ours":
        pytest.skip("waits for theirs alone")
    with (face if holder == "ours" else theirs).acquire() as held:
        waits = [in_thread(face.acquire) for _ in range(3)]
        elsewhere = queue_up(client, Mutex(face.session, face.name))
        deadline = time.monotonic() + WAIT_S
        while not all(each.done() for each in waits):  # some may be on their way
            assert time.monotonic() < deadline
            face.lock.cancel()
        for each in waits:
            assert_raises(LockCancelled, each.result, 0, match=face.name)
        await_keys(client, face.name, 2)
        theirs.lock.cancel()
        held.ensure()
    elsewhere.result(WAIT_S).release()
    face.acquire().release()
    assert keys(client, face.name) == []


@pytest.mark.parametrize("holder", ["ours", "theirs"])
def test_m_a_draining_session_cancels_its_waits(face: Face, theirs: Face, client: Client, holder: str) -> None:
    """The first step of a clean stop: each wait, also a later one, ends in LockCancelled; the hold goes on."""
    if face.recipe.together > 1 and holder == "ours":
        pytest.skip("waits for theirs alone")
    with (face if holder == "ours" else theirs).acquire() as held:
        [key] = keys(client, face.name)
        waits = [in_thread(face.acquire) for _ in range(3)]
        assert_goes_on(waits[0], 0.05)
        face.session.cancel_waiters()
        for attempt in (face.acquire, *([face.attempt] if face.can_try() and holder == "theirs" else [])):
            waits.append(in_thread(attempt))
        for wait in waits:
            assert_raises(LockCancelled, wait.result, WAIT_S, match="shutting down")
        held.ensure()
        wait_until(lambda: keys(client, face.name) == [key])
    assert keys(client, face.name) == []


# n: never more inside than may be


def test_n_never_more_are_inside_than_may(make: Make, client: Client, name: str) -> None:
    """Three sessions of five threads or tasks, and a mutex that is alone: tokens of exclusive holds rise."""
    gate, inside, tokens, together = threading.Lock(), list[str](), list[Any](), []

    def enter(face: Face, held: Any) -> None:
        with gate:
            inside.append(face.recipe.name)
            assert len(inside) == 1 or (len(inside) <= face.recipe.together and len(set(inside)) == 1), inside
            together.append(len(inside))
            tokens.append(face.token(held))
        held.ensure()
        time.sleep(0.001)
        with gate:
            inside.remove(face.recipe.name)

    def work(face: Face) -> None:
        for _ in range(5):
            face.turn(lambda held: enter(face, held))

    with ExitStack() as stack:
        faces = [make(stack.enter_context(Session(client, name=f"n-{number}"))) for number in range(3)]
        rivals = [face.rival(face.session) for face in faces if face.recipe.together > 1]
        for done in [in_thread(work, face) for face in [*faces * 5, *rivals]]:
            done.result(3 * WAIT_S)
        assert keys(client, name) == []
    if rivals:
        assert max(together) > 1
    else:
        assert len(tokens) == 75
        assert tokens == sorted(set(tokens))


# o: a hold that is lost


def test_o_a_lost_hold_says_so_in_every_way(face: Face, client: Client) -> None:
    """When its key is deleted by hand, every call says so, and each listener is told once, a late one at once."""
    held, told = face.acquire(), list[str]()
    held.on_lost(lambda: told.append("first"))
    held.on_lost(lambda: 1 / 0)
    held.on_lost(lambda: told.append("second"))
    delete(client, keys(client, face.name)[0])
    assert held.lost.wait(WAIT_S)
    wait_until(lambda: told == ["first", "second"])
    held.on_lost(lambda: told.append("late"))
    assert told == ["first", "second", "late"]
    assert held.remaining() == 0.0
    for call in (held.ensure, getattr(held, "is_owner", held.ensure), held.release):
        assert_raises(LockLost, call, match=face.name)
    assert_raises(NotHeld, held.release)
    face.turn(lambda again: again.ensure())


def test_o_leaving_with_tells_of_a_loss(face: Face, client: Client) -> None:
    """A body that did not look learns at its end that the lock was not its own, unless it failed by itself."""
    for error in (None, ZeroDivisionError()):
        held = face.acquire()
        with pytest.raises(LockLost if error is None else ZeroDivisionError), held:  # noqa: PT012
            delete(client, keys(client, face.name)[0])
            assert held.lost.wait(WAIT_S)
            if error is not None:
                raise error


def test_o_with_never_runs_its_body_on_a_hold_that_is_over(face: Face, client: Client) -> None:
    """Released, or lost: entering it raises, and a hold that was lost is left by that."""
    held = face.acquire()
    held.release()
    with pytest.raises(NotHeld), held:
        pytest.fail("the body ran unlocked")
    held = face.acquire()
    delete(client, keys(client, face.name)[0])
    assert held.lost.wait(WAIT_S)
    with pytest.raises(LockLost), held:
        pytest.fail("the body ran unlocked")
    assert held.released
    face.turn(lambda again: again.ensure())


def test_o_with_ends_the_hold_that_it_began(face: Face, client: Client) -> None:
    """`with` takes the lock itself; what its body acquires beside it, for another thread or task, goes on."""
    if face.recipe.name == "election":
        pytest.skip("campaigns with a value")
    mine, other = face.enter(together=face.recipe.together > 1)
    assert (mine.released, len(keys(client, face.name))) == (True, 0 if other is None else 1)
    if other is not None:
        assert not other.released
        other.ensure()
        face.release_last()
        assert other.released


def test_o_a_wait_for_itself_is_logged(face: Face, caplog: pytest.LogCaptureFixture) -> None:
    """Once, where the holds of the thread or task that waits are in its own way: of a semaphore, all permits."""
    if face.recipe.name in ("reentrant", "reader"):
        pytest.skip("is entered again")
    with ExitStack() as holds:
        for _ in range(face.recipe.together):
            holds.enter_context(face.acquire())
        assert "waits for itself" not in caplog.text
        assert_raises(LockTimeout, face.acquire, 0.3)
    assert caplog.text.count("waits for itself") == 1
    assert "recipes.py:" in caplog.text  # the line that has acquired


# p: nothing is left


def test_p_a_discarded_hold_stays_and_the_lock_releases_it(face: Face, theirs: Face, client: Client) -> None:
    """`if x.try_acquire(): body()`: the garbage collector frees nothing; `release` of the lock ends the last hold."""
    if face.recipe.name == "election":
        pytest.skip("its leadership resigns")
    assert face.acquire() is not None
    gc.collect()
    assert len(keys(client, face.name)) == 1
    assert not theirs.can_try() or theirs.attempt() is None
    face.release_last()
    assert keys(client, face.name) == []
    assert_raises(NotHeld, face.release_last)
    if face.recipe.name != "reentrant":
        elsewhere = face.acquire()
        in_thread(elsewhere.release).result(WAIT_S)
        assert_raises(NotHeld, face.release_last)


@pytest.mark.parametrize(("recipe", "tasks"), [(MUTEX, False), (REENTRANT, False), (MULTI, False), (MUTEX, True)])
def test_p_a_hold_that_nothing_can_release_is_logged(
    client: Client, name: str, recipe: Recipe, tasks: bool, loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, with the line that acquired it, when its thread or task has ended and the object is gone; it stays."""
    with Session(client) as own:
        Face(recipe, tasks, own, name, loop).cancellable()[0].result(WAIT_S)
        wait_until(lambda: gc.collect() >= 0 and "without a release" in caplog.text)
        assert caplog.text.count("without a release") == 1
        assert "recipes.py:" in caplog.text
        assert len(keys(client, name)) == 1


def test_p_nothing_is_left(opens: Callable[[], Client], client: Client, name: str, loop: Loop) -> None:
    """After a session is closed, while each recipe holds or waits: no key, no lease and no thread."""
    before = set(lock_threads())
    with opens() as own, Session(own) as session:
        faces = every(session, name, loop)
        holds = [face.acquire() for face in faces]
        waits = [in_thread(face.rival(session).acquire) for face in faces]
        await_keys(client, name, 2 * len(faces))
        session.close()
        for wait, held in zip(waits, holds, strict=True):
            assert isinstance(wait.exception(WAIT_S), SessionLost)
            assert_raises(LockLost, held.release)
        assert keys(client, name) == []
        assert client.time_to_live(session.lease_id).ttl == -1
    wait_until(lambda: set(lock_threads()) <= before)


# q: writes under a condition


def test_q_a_client_writes_for_the_owner_alone(client: Client, session: Session, name: str) -> None:
    """`put` and `delete` under `if_` say whether all conditions held: those of a hold do until its release."""
    hold, price = Mutex(session, name).acquire(timeout=WAIT_S), f"{name}-price"
    condition = hold.is_owner()
    assert client.put(price, "first", if_=condition)
    hold.release()
    assert not client.put(price, "late", if_=condition)
    assert not client.put(price, "late", if_=Created(price.encode(), 0))
    with Mutex(session, name).acquire(timeout=WAIT_S) as hold:
        assert not client.delete(price, if_=[hold.is_owner(), condition])
        assert client.put(price, b"second", if_=[hold.is_owner()])
    assert not client.delete(price, if_=condition)
    found = client.get(price)
    assert found is not None
    assert found.value == b"second"
    assert client.delete(price)
    assert client.get(price) is None
