"""The commit queue: which entry leads, which are taken, the result of each, and leaders that fail."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from flask import Flask

from app import services
from app.guards.group_commit import CommitQueue, Entry
from app.sales.inventory import Inventory
from app.sales.purchase import Purchase
from lock import CohortMutex, LockTimeout, Turn
from tests.support.shops import WAIT_S, buy
from tests.support.waiting import wait_until


class Interrupted(BaseException):
    """What no `except Exception` catches, as KeyboardInterrupt."""


def added(queue: CommitQueue, *buyers: str) -> list[Entry]:
    entries = [Entry(Purchase(buyer, "etcd-batch"), timeout=20) for buyer in buyers]
    for entry in entries:
        queue.add(entry)
    return entries


def test_the_first_entry_leads() -> None:
    """When the leader is taken or removed, the next one leads, and none besides."""
    queue = CommitQueue()
    ada, bob, cleo, dan = added(queue, "ada", "bob", "cleo", "dan")
    assert [entry.leads for entry in (ada, bob, cleo, dan)] == [True, False, False, False]
    assert queue.take(2) == [ada, bob]
    assert (cleo.leads, dan.leads) == (True, False)
    assert queue.remove(cleo)
    assert dan.leads
    assert not queue.remove(ada)
    assert queue.take(2) == [dan]
    assert queue.take(2) == []


def test_each_entry_raises_its_own_error() -> None:
    """Threads that share a failure do not share the exception, whose traceback each of them would write to."""
    queue = CommitQueue()
    entries, cause = added(queue, "ada", "bob", "cleo"), TimeoutError("the lock is out of reach")
    queue.fail_all(cause)
    raised = []
    for entry in entries:
        with pytest.raises(TimeoutError, match="out of reach") as caught:
            entry.result()
        raised.append(caught.value)
    assert len({*map(id, raised), id(cause)}) == 4
    assert {error.__cause__ for error in raised} == {cause}
    assert cause.__traceback__ is None


def buy_or_end(app: Flask) -> Any:
    """The outcome of one purchase; None if its thread was interrupted."""
    with suppress(Interrupted):
        return buy(app, "etcd-batch")["outcome"]


def queued(app: Flask, threads: ThreadPoolExecutor, count: int) -> list[Future[Any]]:
    queue = services.of(app).shop.seller_of["etcd-batch"].queues["1"]  # type: ignore[attr-defined]
    buyers = [threads.submit(buy_or_end, app)]
    wait_until(lambda: len(queue) == 1)
    buyers += [threads.submit(buy_or_end, app) for _ in range(count - 1)]
    wait_until(lambda: len(queue) == count)
    return buyers


@pytest.mark.parametrize(
    ("place", "error", "first", "others"),
    [
        ((Entry, "wait"), Interrupted(), None, "sold"),
        ((CohortMutex, "acquire"), Interrupted(), None, "sold"),
        ((CohortMutex, "acquire"), LockTimeout("late"), "lock_timeout", "sold"),
        ((Inventory, "sell_group"), Interrupted(), None, "unavailable"),
    ],
    ids=["interrupted in the queue", "interrupted at the lock", "timed out", "interrupted in the commit"],
)
def test_a_leader_that_fails_blocks_no_other(
    app: Flask,
    crowd: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    error: Any,
    first: Any,
    others: str,
) -> None:
    """A leader that is interrupted or times out passes the lead on; in the commit, it leaves its group in doubt."""
    go_on, acquire = threading.Event(), CohortMutex.acquire

    def fail(*_: Any, **__: Any) -> Any:
        monkeypatch.undo()
        go_on.wait(WAIT_S)
        raise error

    def late(cohort: CohortMutex, *, timeout: float) -> Turn:
        go_on.wait(WAIT_S)
        return acquire(cohort, timeout=timeout)

    monkeypatch.setattr(CohortMutex, "acquire", late)
    monkeypatch.setattr(place[0], place[1], fail)
    buyers = queued(app, crowd, 4)
    go_on.set()
    assert [buyer.result(WAIT_S) for buyer in buyers] == [first, *[others] * 3]
    assert buy(app, "etcd-batch")["outcome"] == "sold"
