"""CohortMutex: threads of one process hand the lock to each other; other processes wait no longer than the bound."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from lock import Client, CohortMutex, Hold, Mutex, Session, Turn
from lock.core import cohort as core_cohort
from lock.errors import NotHeld
from lock.recipes.cohort import CohortToken, YieldingCohortMutex
from lock.runtime.clock import now
from tests.support.lock import WAIT_S, keys, queue_up
from tests.support.waiting import Patch, assert_raises, in_thread, wait_until

Make = Callable[..., CohortMutex]


@pytest.fixture
def make(session: Session, name: str) -> Make:
    def make(*, together: bool = False, **bounds: Any) -> CohortMutex:
        return (YieldingCohortMutex if together else CohortMutex)(session, name, **bounds)

    return make


@pytest.fixture
def mutex(make: Make) -> CohortMutex:
    return make()


def queue_inside(mutex: CohortMutex, count: int = 1, *, timeout: float = WAIT_S) -> list[Future[Turn]]:
    """Threads that wait for a turn; returns once all of them do."""
    before = len(mutex._cohort.waits)
    waits = [in_thread(mutex.acquire, timeout=timeout) for _ in range(count)]
    wait_until(lambda: len(mutex._cohort.waits) == before + count)
    return waits


def held_and_contended(mutex: CohortMutex, theirs: Mutex, client: Client) -> tuple[Turn, Future[Hold]]:
    """A turn, and another process that is known to wait behind it."""
    turn = mutex.acquire(timeout=WAIT_S)
    waiting = queue_up(client, theirs)
    wait_until(turn.contended)
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


def test_a_turn_that_is_over_is_worth_nothing_and_says_nothing(
    mutex: CohortMutex, caplog: pytest.LogCaptureFixture
) -> None:
    """The hold goes on in another thread: what is left of it is not this turn's; nothing was dropped."""
    turn = mutex.acquire(timeout=WAIT_S)
    [following] = queue_inside(mutex)
    turn.release()
    with following.result(WAIT_S) as theirs:
        for call in (turn.release, turn.is_owner, partial(turn._turn.fence, now()), partial(turn._turn.end, now())):
            assert_raises(NotHeld, call)  # or it would end theirs, or write beside it
        assert (turn.remaining(), theirs.remaining() > 0) == (0.0, True)
        del turn
        gc.collect()
    assert "without a release" not in caplog.text


# linger: a hold that nobody else wants is kept


def keep(make: Make, client: Client, *, linger: float = WAIT_S) -> CohortMutex:
    """A mutex whose process keeps the hold after the turn that has just ended."""
    mutex = make(linger=linger)

    def is_lingering() -> bool:
        mutex.acquire(timeout=WAIT_S).release()
        return mutex._cohort.is_lingering

    wait_until(is_lingering)
    return mutex


@pytest.mark.parametrize("is_lingering", [False, True])
def test_a_turn_names_its_own_thread_and_line(
    make: Make, client: Client, is_lingering: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """In the key that it queues with, and in the log where it is dropped."""
    mutex = keep(make, client) if is_lingering else make()
    turn, line = mutex.acquire(timeout=WAIT_S), sys._getframe().f_lineno
    assert "thread MainThread" in mutex.contenders()[0].owner
    mutex._held_by(threading.current_thread()).clear()  # as when the thread has ended
    del turn
    gc.collect()
    assert f"acquired at {__file__}:{line}, was dropped" in caplog.text


def test_a_hold_that_nobody_wants_is_kept(counted: Client, calls: Counter[str], name: str, monkeypatch: Patch) -> None:
    """Turn after turn asks etcd for nothing; each has the key of the first, and a token that rises."""
    monkeypatch.setattr(core_cohort, "OLDEST_S", WAIT_S)
    with Session(counted, ttl=600) as session:
        mutex = keep(partial(CohortMutex, session, name), counted)
        calls.clear()
        tokens = []
        for _ in range(100):
            with mutex.acquire(timeout=WAIT_S) as turn:
                turn.ensure()
                tokens.append(turn.token)
        assert tokens == sorted(set(tokens))
        assert len({token.create_revision for token in tokens}) == 1
        assert calls["Txn"] <= 2  # those of the reconciling, where this takes very long
        assert mutex.locked()
        assert [contender.session for contender in mutex.contenders()] == [session.name]
        last = mutex.try_acquire()
        assert last is not None
        last.release()


def end_by_another(mutex: CohortMutex, theirs: Mutex, client: Client) -> None:
    queue_up(client, theirs).result(WAIT_S).release()


def end_by_a_name_below(mutex: CohortMutex, theirs: Mutex, client: Client) -> None:
    Mutex(theirs.session, f"{mutex.name}/below").acquire(timeout=WAIT_S).release()


@pytest.mark.parametrize("end", [end_by_another, end_by_a_name_below])
def test_a_kept_hold_ends(
    client: Client, make: Make, theirs: Mutex, monkeypatch: Patch, end: Callable[[CohortMutex, Mutex, Client], None]
) -> None:
    """As soon as another process queues; its key is deleted."""
    monkeypatch.setattr(core_cohort, "OLDEST_S", 10 * WAIT_S)
    mutex = keep(make, client, linger=10 * WAIT_S)
    end(mutex, theirs, client)
    wait_until(lambda: keys(client, mutex.name) == [])
    assert not mutex._cohort.is_lingering


def test_a_turn_with_a_condition_is_the_last_of_its_hold(client: Client, make: Make) -> None:
    """After `is_owner` the key is deleted at the end of the turn: a late transaction must not find it."""
    mutex = keep(make, client)
    with mutex.acquire(timeout=WAIT_S) as turn:
        condition = turn.is_owner()
        assert client.put(f"{mutex.name}-owned", "now", if_=condition)
    assert_raises(NotHeld, turn.is_owner)
    assert not client.put(f"{mutex.name}-owned", "late", if_=condition)
    client.delete(f"{mutex.name}-owned")
    with mutex.acquire(timeout=WAIT_S) as other:
        assert other.token.create_revision > turn.token.create_revision


def test_tokens_of_turns_compare_with_plain_ones() -> None:
    """A token n of a `Mutex` of the same name stands before the turns of the hold n, and behind those of lower ones."""
    assert 5 < CohortToken(5, 1) < CohortToken(5, 2) < 6 < CohortToken(6, 1)
    assert CohortToken(5, 1) > 5
    assert CohortToken(5, 9) <= 6
    assert max(7, CohortToken(6, 9), CohortToken(7, 1)) == CohortToken(7, 1)
