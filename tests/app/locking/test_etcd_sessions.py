"""The process's sessions with etcd: made late, shared, replaced when lost, drained and closed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from app.config.settings import Settings
from app.locking.etcd_sessions import EtcdSessions
from loadtest.stack.servers import Etcd
from lock import EtcdUnavailable, connect
from tests.support.shops import at_once
from tests.support.waiting import wait_until


@pytest.fixture
def sessions(etcd: Etcd, settings: Settings) -> Iterator[EtcdSessions]:
    """Sessions with the shared etcd, under this test's own name."""
    sessions = EtcdSessions(connect(etcd.endpoint), f"flash-sale/{settings.sale}", ttl=5, instance="shop-a")
    yield sessions
    sessions.close()


def test_all_threads_share_one_session_and_cohort(sessions: EtcdSessions, etcd: Etcd) -> None:
    """However many threads ask first, at once, there is one lease; when it is lost, they share the next one."""
    assert len(set(at_once(16, lambda _: sessions.session().lease_id))) == 1
    first = sessions.cohort()
    assert sessions.cohort() is first
    with connect(etcd.endpoint) as observer:
        observer.revoke(first.session.lease_id)
    wait_until(first.session.lost.is_set)
    second = sessions.cohort()
    assert second is not first
    assert sessions.cohort() is second
    assert second.session.lease_id != first.session.lease_id
    with second.acquire(timeout=5) as turn:
        turn.ensure()


def test_an_unavailable_etcd_fails_all_at_once(fresh_etcd: Etcd) -> None:
    """Threads that need a session from a frozen etcd share one attempt: none waits out the deadlines of the others."""
    sessions = EtcdSessions(connect(fresh_etcd.endpoint), "flash-sale/x", ttl=5, instance="shop-a")
    sessions.client.status(timeout=5)
    fresh_etcd.pause()

    def ask(_: int) -> float:
        began = time.monotonic()
        with pytest.raises(EtcdUnavailable):
            sessions.session()
        return time.monotonic() - began

    longest = max(at_once(16, ask))
    fresh_etcd.resume()
    assert longest < 20  # sixteen deadlines of two seconds one after the other would be 32
    assert sessions.session().ttl == 5
    sessions.close()
