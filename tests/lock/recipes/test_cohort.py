"""CohortMutex: threads of one process hand the lock to each other; other processes wait no longer than the bound."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lock import Client, CohortMutex, Mutex, Session
from lock.core import cohort as core_cohort
from lock.recipes.cohort import CohortToken, YieldingCohortMutex
from tests.support.lock import WAIT_S, is_contended, keys, queue_up
from tests.support.waiting import Patch, in_thread, wait_until

Make = Callable[..., CohortMutex]


@pytest.fixture
def make(session: Session, name: str) -> Make:
    def make(*, together: bool = False, **bounds: Any) -> CohortMutex:
        return (YieldingCohortMutex if together else CohortMutex)(session, name, **bounds)

    return make


@pytest.mark.parametrize("together", [True, False])
def test_turns_may_end_together(client: Client, make: Make, theirs: Mutex, together: bool) -> None:
    """With `together`, a thread that has had a turn goes on only when the hold is given up; without, at once."""
    mutex = make(slice=60 * WAIT_S, together=together)
    for _ in range(2):
        first, stranger = mutex.acquire(timeout=WAIT_S), queue_up(client, theirs)
        wait_until(partial(is_contended, first))
        second = in_thread(mutex.acquire, timeout=WAIT_S)
        wait_until(lambda: mutex._cohort.waits)
        releasing = in_thread(first.release)
        last = second.result(WAIT_S)
        assert together or releasing.result(WAIT_S) is None
        assert releasing.done() is not together
        last.release()
        releasing.result(WAIT_S)
        stranger.result(WAIT_S).release()


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


def test_a_kept_hold_ends(client: Client, make: Make, theirs: Mutex, monkeypatch: Patch) -> None:
    """As soon as another process queues; its key is deleted."""
    monkeypatch.setattr(core_cohort, "OLDEST_S", 10 * WAIT_S)
    mutex = keep(make, client, linger=10 * WAIT_S)
    queue_up(client, theirs).result(WAIT_S).release()
    wait_until(lambda: keys(client, mutex.name) == [])
    assert not mutex._cohort.is_lingering


def test_tokens_of_turns_compare_with_plain_ones() -> None:
    """A token n of a `Mutex` of the same name stands before the turns of the hold n, and behind those of lower ones."""
    assert 5 < CohortToken(5, 1) < CohortToken(5, 2) < 6 < CohortToken(6, 1)
    assert CohortToken(5, 1) > 5
    assert CohortToken(5, 9) <= 6
    assert max(7, CohortToken(6, 9), CohortToken(7, 1)) == CohortToken(7, 1)
