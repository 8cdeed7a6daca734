"""Purchases that are decided together: who serves whom, in which order, and what becomes of a late one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from unittest.mock import Mock

import pytest
import redis

from app.contract.outcomes import Outcome
from app.sales.commit_queue import CommitQueue, QueuedPurchase
from app.sales.purchase import Purchase, Receipt, Section
from app.sales.refusals import InDoubt
from lock import LockTimeout
from tests.support.shops import WAIT_S
from tests.support.waiting import wait_until

Lead = Callable[[QueuedPurchase], None]


def sell_all(group: Sequence[Section]) -> list[Receipt]:
    return [Receipt(Outcome.SOLD, each.purchase.guard, order=each.purchase.order) for each in group]


def queue_up(crowd: ThreadPoolExecutor, queue: CommitQueue, lead: Lead, number: int) -> list[Future[Receipt]]:
    """So many purchases, one after the other; each leads in this way."""
    waiting = list[Future[Receipt]]()
    for place in range(1, number + 1):
        waiting.append(crowd.submit(queue.buy, Purchase(str(place), "etcd-batch"), lambda _: WAIT_S, lead))
        wait_until(lambda: len(queue) == place or place == number)  # noqa: B023  (the last one may be served already)
    return waiting


def test_who_waits_in_vain_leaves_and_is_not_served(crowd: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is up before the leader decides; nobody buys for it later."""
    monkeypatch.setattr("app.sales.commit_queue._RESULT_S", 0.01)
    queue, late = CommitQueue(), threading.Event()

    def lead(leader: QueuedPurchase) -> None:
        late.wait(WAIT_S)
        queue.serve(sell_all)

    [first] = queue_up(crowd, queue, lead, 1)
    wait_until(lambda: len(queue) == 1)
    second = crowd.submit(queue.buy, Purchase("2", "etcd-batch"), lambda _: 0.05, lead)
    with pytest.raises(LockTimeout, match="others of this instance"):
        second.result(WAIT_S)
    assert len(queue) == 1
    late.set()
    assert first.result(WAIT_S).outcome is Outcome.SOLD


# What the first leader of three does, what each of them is told, and how many have led then.
LEADS: list[tuple[Callable[[CommitQueue], None], list[type[BaseException] | None], int]] = [
    (lambda queue: queue.serve(Mock(side_effect=redis.ConnectionError("gone"))), [redis.ConnectionError] * 3, 1),
    (lambda queue: queue.serve(Mock(side_effect=KeyboardInterrupt())), [KeyboardInterrupt, InDoubt, InDoubt], 1),
    (Mock(side_effect=LockTimeout("late")), [LockTimeout, None, None], 2),
    (Mock(side_effect=KeyboardInterrupt()), [KeyboardInterrupt, None, None], 2),
    (lambda queue: queue.fail(LockTimeout("nobody in time")), [LockTimeout] * 3, 1),
]


@pytest.mark.parametrize(("first", "told", "led"), LEADS)
def test_what_a_leader_meets_is_told_to_those_whom_it_concerns(
    crowd: ThreadPoolExecutor, first: Callable[[CommitQueue], None], told: list[type[BaseException] | None], led: int
) -> None:
    """A failed sale to its group, each with its copy of the error; a failed lead to the leader: the next one leads.

    What all would meet is told to all that wait; after an interrupt, which the leader alone gets, the others don't
    know. The queue goes on.
    """
    queue, leaders = CommitQueue(), list[QueuedPurchase]()

    def lead(leader: QueuedPurchase) -> None:
        leaders.append(leader)
        wait_until(lambda: len(queue) == 4 - len(leaders))
        if len(leaders) == 1:
            first(queue)
        queue.serve(sell_all)

    errors = [each.exception(WAIT_S) for each in queue_up(crowd, queue, lead, 3)]
    assert [error and type(error) for error in errors] == told
    assert None in errors or len({*map(id, errors)}) == 3
    assert (len(queue), len(leaders)) == (0, led)
    later = queue.buy(Purchase("4", "etcd-batch"), lambda _: WAIT_S, lambda _: queue.serve(sell_all))
    assert later.outcome is Outcome.SOLD


def test_a_purchase_whose_time_is_up_is_not_given_up_while_it_is_decided(
    crowd: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its order may be written already, so it waits for the answer."""
    monkeypatch.setattr("app.sales.commit_queue._RESULT_S", 0.01)
    queue, waits, decided = CommitQueue(), list[Purchase](), threading.Event()

    def time_left(purchase: Purchase) -> float:
        waits.append(purchase)
        return 0.05

    def sell(group: Sequence[Section]) -> list[Receipt]:
        decided.wait(WAIT_S)
        return sell_all(group)

    def lead(leader: QueuedPurchase) -> None:
        wait_until(lambda: len(queue) == 2)
        queue.serve(sell)

    first = crowd.submit(queue.buy, Purchase("ada", "etcd-batch"), lambda _: WAIT_S, lead)
    wait_until(lambda: len(queue) == 1)
    late = crowd.submit(queue.buy, Purchase("bob", "etcd-batch"), time_left, lead)
    wait_until(lambda: len(waits) > 2)
    decided.set()
    assert [buyer.result(WAIT_S).outcome for buyer in (first, late)] == [Outcome.SOLD] * 2
