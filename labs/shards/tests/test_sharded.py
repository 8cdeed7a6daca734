"""Stock on several shards: what a buyer sees of it, how rarely the lock is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask

from app import services
from app.sales.purchase import Purchase, Section
from app.sales.sale import Sale
from labs.shards.shards import Shard, ShardedStock
from lock import CohortMutex, Mutex
from tests.support.shops import WAIT_S, at_once, buy
from tests.support.waiting import wait_until

Make = Callable[..., Flask]


def test_few_purchases_need_the_lock(make: Make, sale: Sale, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 items at two instances, at most 0.15 acquisitions of the mutex go to a purchase; all items are sold."""
    shops, acquire, acquired = [make(), make(instance="shop-b")], CohortMutex.acquire, list[int]()

    def counted(self: CohortMutex, **options: Any) -> Any:
        acquired.append(1)
        return acquire(self, **options)

    def click(number: int) -> list[str]:
        return [buy(shops[number % 2], "etcd-sharded", buyer=f"{number}-{place}")["outcome"] for place in range(35)]

    monkeypatch.setattr(CohortMutex, "acquire", counted)
    sale.reset(300)
    outcomes = Counter(outcome for told in at_once(10, click) for outcome in told)
    assert outcomes == {"sold": 300, "sold_out": 50}
    assert sale.snapshot().judge().sentence == "EXACT"
    assert len(acquired) <= 0.15 * 300


def test_purchases_that_wait_for_the_same_items_are_made_together(
    app: Flask, sale: Sale, stranger: Mutex, crowd: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once items come to the shard, one script sells to all; as many were brought as buyers wait there."""
    (stock,) = services.of(app).guards["etcd-sharded"].stocks.values()  # type: ignore[attr-defined]
    buyers = [name for name in map(str, range(40)) if stock.shard_of(Purchase(name, "etcd-sharded")).number == 0][:6]
    groups, sell = list[int](), ShardedStock.sell

    def counted(item_stock: ShardedStock, shard: Shard, sections: Sequence[Section]) -> Any:
        groups.append(len(sections))
        return sell(item_stock, shard, sections)

    monkeypatch.setattr(ShardedStock, "sell", counted)
    with stranger.acquire(timeout=WAIT_S):
        answers = []
        for buyer in buyers:
            answers.append(crowd.submit(buy, app, "etcd-sharded", buyer=buyer))
            wait_until(lambda: len(stock.shards[0].queue) == len(answers) and groups)
    assert [answer.result(WAIT_S)["outcome"] for answer in answers] == ["sold"] * 6
    assert groups == [1, 6]


def test_another_guard_sells_what_the_treasury_has(app: Flask, sale: Sale) -> None:
    """Items in a shard are not for the others, which are sold out before; nothing is sold twice, nothing is lost."""
    assert buy(app, "etcd-sharded")["stock"] == 1
    assert [buy(app, "etcd")["outcome"] for _ in range(9)] == ["sold"] * 8 + ["sold_out"]
    now = sale.snapshot()
    assert (now.orders, now.stock, now.judge().exact) == (9, 1, True)
    assert [buy(app, "etcd-sharded")["outcome"] for _ in range(2)] == ["sold", "sold_out"]
