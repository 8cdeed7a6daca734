"""Purchases that are decided together: who serves whom, in which order, and what becomes of a late one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

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


@pytest.mark.parametrize(
    ("fault", "told"),
    [(redis.ConnectionError("gone"), redis.ConnectionError), (KeyboardInterrupt(), InDoubt)],
    ids=["an error", "an interrupt"],
)
def test_what_ends_a_sale_is_told_to_the_whole_group(
    crowd: ThreadPoolExecutor, fault: BaseException, told: type[Exception]
) -> None:
    """To each a copy of the error; after an interrupt, which the leader alone gets, that nobody knows."""
    queue = CommitQueue()

    def lead(leader: QueuedPurchase) -> None:
        wait_until(lambda: len(queue) == 3)
        queue.serve(fail)

    def fail(group: Sequence[Section]) -> list[Receipt]:
        raise fault

    first, *others = queue_up(crowd, queue, lead, 3)
    assert isinstance(first.exception(WAIT_S), type(fault))
    errors = [each.exception(WAIT_S) for each in others]
    assert [type(error) for error in errors] == [told, told]
    assert errors[0] is not errors[1]
    later = queue.buy(Purchase("4", "etcd-batch"), lambda _: WAIT_S, lambda _: queue.serve(sell_all))
    assert later.outcome is Outcome.SOLD


@pytest.mark.parametrize("fault", [LockTimeout("late"), KeyboardInterrupt()], ids=["in time", "interrupted"])
def test_a_leader_that_fails_passes_the_lead_on(crowd: ThreadPoolExecutor, fault: BaseException) -> None:
    """It alone is told; the next one leads for the others."""
    queue, leaders = CommitQueue(), list[QueuedPurchase]()

    def lead(leader: QueuedPurchase) -> None:
        leaders.append(leader)
        wait_until(lambda: len(queue) == (3 if len(leaders) == 1 else 2))
        if len(leaders) == 1:
            raise fault
        queue.serve(sell_all)

    first, *others = queue_up(crowd, queue, lead, 3)
    assert first.exception(WAIT_S) is fault
    assert [each.result(WAIT_S).outcome for each in others] == [Outcome.SOLD] * 2
    assert len(leaders) == 2


def test_a_failure_of_all_is_told_to_all_that_wait(crowd: ThreadPoolExecutor) -> None:
    """Each would meet it as well: nobody leads after it, and the queue is empty."""
    queue, leaders = CommitQueue(), list[QueuedPurchase]()

    def lead(leader: QueuedPurchase) -> None:
        leaders.append(leader)
        wait_until(lambda: len(queue) == 3)
        queue.fail(LockTimeout("nobody in time"))

    waiting = queue_up(crowd, queue, lead, 3)
    assert [type(each.exception(WAIT_S)) for each in waiting] == [LockTimeout] * 3
    assert (len(queue), len(leaders)) == (0, 1)


def test_a_purchase_whose_time_is_up_is_not_given_up_while_it_is_decided(
    crowd: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its order may be written already, so it waits for the answer."""
    monkeypatch.setattr("app.sales.commit_queue._RESULT_S", 0.01)
    queue, waits, wait = CommitQueue(), list[QueuedPurchase](), QueuedPurchase.wait
    decided = threading.Event()

    def counted(entry: QueuedPurchase, timeout: float) -> bool:
        waits.append(entry)
        return wait(entry, timeout)

    def lead(leader: QueuedPurchase) -> None:
        wait_until(lambda: len(queue) == 2)
        queue.serve(sell)

    def sell(group: Sequence[Section]) -> list[Receipt]:
        monkeypatch.setattr(QueuedPurchase, "wait", counted)
        decided.wait(WAIT_S)
        return sell_all(group)

    first = crowd.submit(queue.buy, Purchase("ada", "etcd-batch"), lambda _: WAIT_S, lead)
    wait_until(lambda: len(queue) == 1)
    late = crowd.submit(queue.buy, Purchase("bob", "etcd-batch"), lambda _: 0.05, lead)
    wait_until(lambda: len(waits) > 2)
    decided.set()
    assert [buyer.result(WAIT_S).outcome for buyer in (first, late)] == [Outcome.SOLD] * 2
