"""CohortMutex: threads of one process hand the lock to each other; other processes wait no longer than the bound."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from lock import Client, CohortMutex, Hold, Mutex, Session, Turn
from lock.errors import LockCancelled, LockLost, LockTimeout, NotHeld, SessionLost
from lock.recipes.turn import Waiter
from lock.runtime.clock import now
from tests.support.lock import WAIT_S, delete, keys, queue_up
from tests.support.waiting import Patch, assert_raises, in_thread, wait_until

Make = Callable[..., CohortMutex]


@pytest.fixture
def make(session: Session, name: str) -> Make:
    return partial(CohortMutex, session, name)


@pytest.fixture
def mutex(make: Make) -> CohortMutex:
    return make()


def queue_inside(mutex: CohortMutex, count: int = 1, *, timeout: float = WAIT_S) -> list[Future[Turn]]:
    """Threads that wait for a turn; returns once all of them do."""
    before = len(mutex._waiters)
    waits = [in_thread(mutex.acquire, timeout=timeout) for _ in range(count)]
    wait_until(lambda: len(mutex._waiters) == before + count)
    return waits


def held_and_contended(mutex: CohortMutex, theirs: Mutex, client: Client) -> tuple[Turn, Future[Hold]]:
    """A turn, and another process that is known to wait behind it."""
    turn = mutex.acquire(timeout=WAIT_S)
    waiting = queue_up(client, theirs)
    wait_until(turn._hold.contended)
    return turn, waiting


@pytest.mark.parametrize("bounds", [{"batch": 1, "slice": 0.0}, {"slice": 60 * WAIT_S, "together": True}])
def test_without_strangers_turns_share_one_hold_and_wait_for_none(make: Make, bounds: dict[str, Any]) -> None:
    """While only threads of this process wait, no bound ends a hold, and `together` delays no release."""
    mutex = make(**bounds)
    turn = mutex.acquire(timeout=WAIT_S)
    revision = turn.token.create_revision
    for _ in range(3):
        [following] = queue_inside(mutex)
        in_thread(turn.release).result(WAIT_S)
        turn = following.result(WAIT_S)
        assert turn.token.create_revision == revision
    turn.release()


@pytest.mark.parametrize(("batch", "slice", "more"), [(3, WAIT_S, 2), (1000, 0.0, 0)])
def test_the_bounds_let_another_process_in(
    client: Client, make: Make, theirs: Mutex, batch: int, slice: float, more: int
) -> None:
    """With another process waiting, a hold ends although more threads of the process wait."""
    mutex, turns = make(batch=batch, slice=slice), list[Turn]()
    first, stranger = held_and_contended(mutex, theirs, client)

    def take(done: Future[Turn]) -> None:
        turns.append(done.result())
        turns[-1].release()

    waits = queue_inside(mutex, 10)
    for wait in waits:
        wait.add_done_callback(take)
    first.release()
    with stranger.result(WAIT_S):
        assert len(turns) == more, "those of one hold, with the first"
        assert mutex.locked()
    wait_until(lambda: len(turns) == 10 and not mutex.locked())


@pytest.mark.parametrize("together", [True, False])
def test_turns_may_end_together(client: Client, make: Make, theirs: Mutex, together: bool) -> None:
    """With `together`, a thread that has had a turn goes on only when the hold is given up; without, at once."""
    mutex = make(slice=60 * WAIT_S, together=together)
    for _ in range(2):
        first, stranger = held_and_contended(mutex, theirs, client)
        [second] = queue_inside(mutex)
        releasing = in_thread(first.release)
        last = second.result(WAIT_S)
        assert together or releasing.result(WAIT_S) is None
        assert releasing.done() is not together
        last.release()
        releasing.result(WAIT_S)
        stranger.result(WAIT_S).release()


def test_turns_end_together_within_the_slice(client: Client, make: Make, theirs: Mutex) -> None:
    """Once the slice is over, a thread that has had a turn does not wait for the turn that still runs."""
    mutex = make(slice=60 * WAIT_S, together=True)
    first, stranger = held_and_contended(mutex, theirs, client)
    [second] = queue_inside(mutex)
    first.turns._slice_ends = now() + 1.0  # a moment ahead: with the slice over, the second one would get no turn
    in_thread(first.release).result(WAIT_S)
    second.result(WAIT_S).release()
    stranger.result(WAIT_S).release()


def test_a_leader_leaves_its_place_to_the_next(client: Client, mutex: CohortMutex, theirs: Mutex) -> None:
    """The key of a leader that timed out goes on waiting for the next thread, ahead of those who queued later."""
    with theirs.acquire(timeout=WAIT_S):
        [leader] = queue_inside(mutex, timeout=1.0)
        wait_until(lambda: len(keys(client, mutex.name)) == 2)
        key = keys(client, mutex.name)[1]
        [heir] = queue_inside(mutex)
        assert_raises(LockTimeout, leader.result, WAIT_S, match="held by stranger")
    with heir.result(WAIT_S) as turn:
        assert turn.key == key


def test_a_thread_times_out_behind_a_turn_of_its_own_process(mutex: CohortMutex) -> None:
    """The error of a thread that waits for another thread's turn names the process that holds."""
    with mutex.acquire(timeout=WAIT_S), pytest.raises(LockTimeout, match="held by ours"):
        in_thread(mutex.acquire, timeout=1.0).result(WAIT_S)


def test_the_finder_of_a_lost_session_is_told(client: Client, name: str) -> None:
    """Also a thread on its way into a mutex that has to be told as well, because it had lost a hold before."""
    with Session(client, ttl=10) as session:
        mutex = CohortMutex(session, name)
        turn = mutex.acquire(timeout=WAIT_S)
        delete(client, turn.key)
        assert turn.lost.wait(WAIT_S)
        assert_raises(LockLost, turn.release)
        session._engine.core.deadline = now()
        assert_raises(SessionLost, in_thread(mutex.acquire).result, WAIT_S)


def test_a_draining_session_hands_no_turn_on(session: Session, mutex: CohortMutex) -> None:
    """After `cancel_waiters` the turn that runs ends in peace, and the threads behind it are cancelled."""
    turn = mutex.acquire(timeout=WAIT_S)
    waits = queue_inside(mutex, 2)
    session.cancel_waiters()
    turn.ensure()
    turn.release()
    for each in waits:
        assert_raises(LockCancelled, each.result, WAIT_S)


def test_a_cancelled_thread_gets_no_turn(mutex: CohortMutex) -> None:
    """A turn that ends before a cancelled thread has woken goes to another."""
    asleep = Waiter()
    with mutex.acquire(timeout=WAIT_S):
        mutex._waiters.append(asleep)
        mutex.cancel()
    assert asleep.turn is None
    mutex.acquire(timeout=WAIT_S).release()


def test_a_newcomer_after_cancel_is_not_cancelled(
    client: Client, mutex: CohortMutex, theirs: Mutex, monkeypatch: Patch
) -> None:
    """The thread that is to lead next is cancelled before it wakes; the key that was cancelled goes with it."""
    awake, proceed = threading.Event(), CohortMutex._proceed
    hold = theirs.acquire(timeout=WAIT_S)
    first = in_thread(mutex.acquire, timeout=1.0)
    wait_until(lambda: len(keys(client, mutex.name)) == 2)

    def proceed_late(waiter: Waiter, until: float) -> object:
        assert awake.wait(WAIT_S)
        return proceed(mutex, waiter, until)

    monkeypatch.setattr(mutex, "_proceed", proceed_late)
    second = in_thread(mutex.acquire, timeout=WAIT_S)
    assert_raises(LockTimeout, first.result, WAIT_S)
    mutex.cancel()
    [third] = queue_inside(mutex)
    awake.set()
    assert_raises(LockCancelled, second.result, WAIT_S)
    wait_until(lambda: third.done() or len(keys(client, mutex.name)) == 2)
    hold.release()
    third.result(WAIT_S).release()


@pytest.mark.parametrize("step", ["_first_turn", "_proceed"])
def test_an_interrupt_passes_the_first_turn_on(
    client: Client, mutex: CohortMutex, theirs: Mutex, monkeypatch: Patch, step: str
) -> None:
    """A thread that got the lock for all and is interrupted at once leaves it to the next one: turn and key."""
    taken = getattr(mutex, step)

    def interrupted(*args: object) -> object:
        monkeypatch.setattr(mutex, step, taken)
        taken(*args)
        raise KeyboardInterrupt

    with theirs.acquire(timeout=WAIT_S):
        monkeypatch.setattr(mutex, step, interrupted)
        victim = in_thread(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: len(keys(client, mutex.name)) == 2)
        [other] = queue_inside(mutex)
    assert isinstance(victim.exception(WAIT_S), KeyboardInterrupt)
    with other.result(WAIT_S) as turn:
        assert turn.token.turn == 2
        turn.ensure()
        assert keys(client, mutex.name) == [turn.key]


def test_a_turn_that_is_over_is_worth_nothing_and_says_nothing(mutex: CohortMutex) -> None:
    """The hold goes on in another thread: what is left of it is not this turn's; nothing was dropped."""
    turn = mutex.acquire(timeout=WAIT_S)
    [following] = queue_inside(mutex)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        turn.release()
        with following.result(WAIT_S) as theirs:
            assert_raises(NotHeld, turn.release)  # or it would end theirs
            assert (turn.remaining(), theirs.remaining() > 0) == (0.0, True)
            del turn
            gc.collect()
    assert [str(warning.message) for warning in told if mutex.name in str(warning.message)] == []


@pytest.mark.parametrize("bounds", [{"batch": 0}, {"slice": -0.1}, {"slice": float("nan")}, {"batch": "3"}])
def test_bounds_that_mean_nothing_are_refused(make: Make, bounds: dict[str, Any]) -> None:
    """`batch` below one and a negative `slice` are errors at once."""
    assert_raises((TypeError, ValueError), make, **bounds, match=r"(batch|slice) is .*(0|1) or more")
