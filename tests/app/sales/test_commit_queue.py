"""Purchases that are decided together: who serves whom, in which order, and what becomes of a late one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.contract.outcomes import Outcome
from app.sales.commit_queue import CommitQueue, QueuedPurchase
from app.sales.purchase import Purchase, Receipt, Section
from tests.support.shops import WAIT_S
from tests.support.waiting import wait_until


def sold(section: Section) -> Receipt:
    return Receipt(Outcome.SOLD, section.purchase.guard, order=section.purchase.order)


def test_a_purchase_without_a_result_keeps_its_place(crowd: ThreadPoolExecutor) -> None:
    """A leader that has its own answer serves no more; the next one serves those that found nothing, in their order."""
    queue, groups = CommitQueue(), list[list[str]]()

    def lead(leader: QueuedPurchase) -> None:
        wait_until(lambda: len(queue) >= 4 - 2 * len(groups))
        queue.serve(two_of_them)

    def two_of_them(group: Sequence[Section]) -> list[Receipt | None]:
        groups.append([section.purchase.buyer for section in group])
        return [sold(section) if place < 2 else None for place, section in enumerate(group)]

    buyers = []
    for number in range(4):
        buyers.append(crowd.submit(queue.buy, Purchase(str(number), "etcd-sharded"), lambda _: WAIT_S, lead))
        wait_until(lambda: len(queue) > number or groups)  # noqa: B023
    assert [buyer.result(WAIT_S).outcome for buyer in buyers] == [Outcome.SOLD] * 4
    assert groups == [["0", "1", "2", "3"], ["2", "3"]]


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
        return [sold(purchase) for purchase in group]

    first = crowd.submit(queue.buy, Purchase("ada", "etcd-batch"), lambda _: WAIT_S, lead)
    wait_until(lambda: len(queue) == 1)
    late = crowd.submit(queue.buy, Purchase("bob", "etcd-batch"), lambda _: 0.05, lead)
    wait_until(lambda: len(waits) > 2)
    decided.set()
    assert [buyer.result(WAIT_S).outcome for buyer in (first, late)] == [Outcome.SOLD] * 2
