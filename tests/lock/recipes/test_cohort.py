"""CohortMutex: threads of one process hand the lock to each other; other processes wait no longer than the bound."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from functools import partial

import pytest

from lock import Client, CohortMutex, Mutex, Session
from lock.core import cohort as core_cohort
from lock.recipes.cohort import CohortToken, YieldingCohortMutex
from tests.support.lock import WAIT_S, is_contended, keys, queue_up
from tests.support.waiting import Patch, in_thread, wait_until


@pytest.mark.parametrize("kind", [YieldingCohortMutex, CohortMutex])
def test_turns_may_end_together(
    client: Client, session: Session, theirs: Mutex, name: str, kind: type[CohortMutex]
) -> None:
    """Where it yields, a thread that has had a turn goes on only when the hold is given up; else at once."""
    mutex, together = kind(session, name, slice=60 * WAIT_S), kind is YieldingCohortMutex
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


def test_a_turn_names_its_own_thread_and_line(session: Session, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """In the key that it queues with, and in the log where it is dropped."""
    mutex = CohortMutex(session, name)
    turn, line = mutex.acquire(timeout=WAIT_S), sys._getframe().f_lineno
    assert "thread MainThread" in mutex.contenders()[0].owner
    mutex._held_by(threading.current_thread()).clear()  # as when the thread has ended
    del turn
    gc.collect()
    assert f"acquired at {__file__}:{line}, was dropped" in caplog.text


def test_a_hold_that_nobody_wants_is_kept(
    counted: Client, calls: Counter[str], theirs: Mutex, name: str, monkeypatch: Patch
) -> None:
    """Turn after turn asks etcd for nothing: each has the key of the first, and a token that rises.

    It ends as soon as another process queues.
    """
    monkeypatch.setattr(core_cohort, "OLDEST_S", 10 * WAIT_S)
    with Session(counted, ttl=600) as session:
        mutex, tokens = CohortMutex(session, name, linger=10 * WAIT_S), list[CohortToken]()

        def is_kept() -> bool:
            mutex.acquire(timeout=WAIT_S).release()
            return mutex._cohort.is_lingering

        wait_until(is_kept)
        calls.clear()
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
        queue_up(counted, theirs).result(WAIT_S).release()
        wait_until(lambda: keys(counted, name) == [])
        assert not mutex._cohort.is_lingering


def test_tokens_of_turns_compare_with_plain_ones() -> None:
    """A token n of a `Mutex` of the same name stands before the turns of the hold n, and behind those of lower ones."""
    assert 5 < CohortToken(5, 1) < CohortToken(5, 2) < 6 < CohortToken(6, 1)
    assert CohortToken(5, 1) > 5
    assert CohortToken(5, 9) <= 6
    assert max(7, CohortToken(6, 9), CohortToken(7, 1)) == CohortToken(7, 1)
