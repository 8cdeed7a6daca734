"""Sessions and holds that serve a whole instance: made late, shared, replaced; turns, groups, loss and fairness."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask

from app import services
from app.config.settings import Settings
from app.contract.keys import DEFAULT_ITEM
from app.locking.etcd_sessions import EtcdSessions
from app.sales import commit_queue
from app.sales.sale import Sale
from loadtest.stack.servers import Etcd
from lock import EtcdUnavailable, Mutex, connect
from tests.support.shops import WAIT_S, Answer, at_once, buy, ledger
from tests.support.waiting import wait_until


def told(buyers: list[Future[Answer]], member: str = "outcome") -> list[Any]:
    return [buyer.result(WAIT_S)[member] for buyer in buyers]


@pytest.mark.parametrize(("limit", "stock", "groups"), [(3, 10, [3, 3, 1]), (128, 10, [7]), (128, 2, [7])])
def test_a_group_is_committed_together(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex, monkeypatch: pytest.MonkeyPatch,
    limit: int, stock: int, groups: list[int],
) -> None:  # fmt: skip
    """Under etcd-batch waiters share one token, in order, sold out or not; those beyond the limit have a higher one."""
    sale.reset(stock)
    monkeypatch.setattr(commit_queue, "MOST_AT_ONCE", limit)
    queue = services.of(app).guards["etcd-batch"].queues[DEFAULT_ITEM]  # type: ignore[attr-defined]
    buyers = list[Future[Answer]]()
    with stranger.acquire(timeout=WAIT_S):
        for number in range(7):
            buyers.append(crowd.submit(buy, app, "etcd-batch", buyer=number))
            wait_until(lambda: len(queue) > number)  # noqa: B023
    tokens, orders = told(buyers, "token"), told(buyers, "order")
    assert tokens == sorted(tokens)
    assert [len(list(group)) for _, group in itertools.groupby(tokens)] == groups
    assert told(buyers, "stock") == [max(stock - number, 0) for number in range(1, 8)]
    assert told(buyers) == ["sold"] * min(stock, 7) + ["sold_out"] * max(7 - stock, 0)
    entries = [(entry["buyer"], entry["order"], entry["token"]) for entry in ledger(sale)]
    assert entries == list(zip("0123456"[:stock], orders[:stock], tokens[:stock], strict=True))


@pytest.mark.parametrize("guard", ["etcd-cohort", "etcd-batch"])
def test_the_other_instance_waits_for_a_slice_and_no_longer(
    crowd: ThreadPoolExecutor, app: Flask, other: Flask, sale: Sale, guard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many buyers one instance has, the other's first is served after `slice` and one critical section."""
    monkeypatch.setattr(commit_queue, "MOST_AT_ONCE", 1)
    services.of(other).sessions.session()
    sale.reset(100)
    stop = threading.Event()

    def keep_buying() -> None:
        while not stop.is_set():
            buy(app, guard, hold_ms=20)

    for _ in range(8):
        crowd.submit(keep_buying)
    try:
        wait_until(lambda: len(ledger(sale)) > 3)
        asked = crowd.submit(buy, other, guard, buyer="from afar")
        wait_until(lambda: len(services.of(other).sessions.mutex().contenders()) > 1 or asked.done())
        before = len(ledger(sale))
        answer = asked.result(WAIT_S)
    finally:
        stop.set()
    place = [entry["order"] for entry in ledger(sale)].index(answer["order"])
    assert place - before <= 6  # of 20 ms each, in a slice of 50 ms


# The process's sessions with etcd: made late, shared, replaced when lost, drained and closed.


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
