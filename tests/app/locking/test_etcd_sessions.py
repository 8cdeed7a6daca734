"""The process's line to etcd: made late, shared, replaced when lost, drained and closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from app.locking.etcd_sessions import EtcdSessions
from app.sales.refusals import ShuttingDown
from loadtest.stack.ports import free_port
from loadtest.stack.servers import Etcd
from lock import Client, EtcdUnavailable, LockCancelled, LockError, Session, connect
from tests.support.waiting import wait_until


@pytest.fixture
def sessions(etcd: Etcd, settings) -> Iterator[EtcdSessions]:  # type: ignore[no-untyped-def]
    """A line to the shared etcd, under a name of this test's own."""
    sessions = EtcdSessions(etcd.endpoint, f"flash-sale/{settings.sale}", ttl=5, instance="shop-a")
    yield sessions
    sessions.close()


@pytest.fixture
def observer(etcd: Etcd) -> Iterator[Client]:
    """Looks into etcd from outside."""
    with connect(etcd.endpoint) as client:
        yield client


def test_nothing_is_connected_before_it_is_needed() -> None:
    """A line to an etcd that is away can be made, drained and closed."""
    EtcdSessions(f"127.0.0.1:{free_port()}", "flash-sale/x", ttl=5, instance="shop-a").close()


def test_all_threads_share_one_session(sessions: EtcdSessions) -> None:
    """However many threads ask first, at once, there is one lease."""
    barrier = threading.Barrier(16)

    def ask(_: int) -> int:
        barrier.wait()
        return sessions.session().lease_id

    with ThreadPoolExecutor(16) as threads:
        assert len(set(threads.map(ask, range(16)))) == 1


def test_a_lost_session_is_replaced(sessions: EtcdSessions, observer: Client) -> None:
    """After the lease was revoked from outside, the next one who asks gets a new session."""
    first = sessions.session()
    observer.revoke(first.lease_id)
    wait_until(first.lost.is_set)
    second = sessions.session()
    assert second.lease_id != first.lease_id
    assert not second.lost.is_set()


def test_a_lost_session_is_given_back_when_etcd_is_back(fresh_etcd: Etcd) -> None:
    """etcd extends every lease when it restarts; the lost one is revoked long before that is over."""
    sessions = EtcdSessions(fresh_etcd.endpoint, "flash-sale/x", ttl=3, instance="shop-a")
    lost = sessions.session()
    fresh_etcd.kill()
    wait_until(lost.lost.is_set)
    with pytest.raises(EtcdUnavailable):
        sessions.session()
    fresh_etcd.start()
    with connect(fresh_etcd.endpoint) as client:
        wait_until(lambda: not _failed(sessions), timeout=5)
        wait_until(lambda: client.time_to_live(lost.lease_id).ttl == -1, timeout=1.5)
    sessions.close()


def _failed(sessions: EtcdSessions) -> bool:
    try:
        sessions.session()
    except EtcdUnavailable:
        return True
    return False


def test_an_etcd_that_is_away_fails_all_at_once(fresh_etcd: Etcd) -> None:
    """Threads that need a session from a frozen etcd share one attempt: none waits out the deadlines of the others."""
    sessions = EtcdSessions(fresh_etcd.endpoint, "flash-sale/x", ttl=5, instance="shop-a")
    sessions.ping(timeout=5)
    fresh_etcd.pause()

    def ask(_: int) -> float:
        began = time.monotonic()
        with pytest.raises(EtcdUnavailable):
            sessions.session()
        return time.monotonic() - began

    with ThreadPoolExecutor(16) as threads:
        longest = max(threads.map(ask, range(16)))
    fresh_etcd.resume()
    assert longest < 20  # sixteen deadlines of two seconds one after the other would be 32
    assert sessions.session().ttl == 5
    sessions.close()


def test_all_threads_share_one_cohort(sessions: EtcdSessions, observer: Client) -> None:
    """The threads of a process find each other in one object, and in a new one when the session is lost."""
    first = sessions.cohort()
    assert sessions.cohort() is first
    observer.revoke(first.session.lease_id)
    wait_until(first.session.lost.is_set)
    second = sessions.cohort()
    assert second is not first
    assert sessions.cohort() is second
    assert not second.session.lost.is_set()
    with second.acquire(timeout=5) as turn:
        turn.ensure()


def test_drain_cancels_waiters_and_leaves_the_holder(sessions: EtcdSessions) -> None:
    """Who waits is sent away, now and later; who holds keeps the lock until releasing it."""
    hold = sessions.mutex().acquire(timeout=5)
    failures: list[LockError] = []

    def wait() -> None:
        try:
            sessions.mutex().acquire(timeout=30)
        except LockError as error:
            failures.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    wait_until(lambda: len(sessions.contenders()) == 2)
    sessions.drain()
    waiter.join()
    assert [type(failure) for failure in failures] == [LockCancelled]
    hold.ensure()
    hold.release()
    with pytest.raises(ShuttingDown, match="shop-a"):
        sessions.mutex()


def test_close_revokes_the_lease(sessions: EtcdSessions, observer: Client) -> None:
    """After closing, etcd does not know the lease any more."""
    lease = sessions.session().lease_id
    assert observer.time_to_live(lease).ttl > 0
    sessions.close()
    assert observer.time_to_live(lease).ttl == -1


def test_drain_reaches_those_who_wait_for_the_session(sessions: EtcdSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is still being made when the instance is told to stop is given to nobody."""
    made = threading.Event()
    make = sessions._make_session

    def make_late(attempt: Future[Session]) -> None:
        sessions.drain()
        make(attempt)
        made.set()

    monkeypatch.setattr(sessions, "_make_session", make_late)
    with pytest.raises(ShuttingDown, match="shop-a"):
        sessions.cohort()
    assert made.is_set()
