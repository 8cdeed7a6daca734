"""A sale of several items: each with its own stock, ledger, fence and lock; one Idempotency-Key for one purchase."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask

from app.config.settings import Settings
from app.sales.inventory import Inventory
from app.sales.purchase import Purchase
from app.sales.refusals import KeyReused
from app.sales.sale import Sale
from app.sales.slots import Keys
from tests.support.shops import WAIT_S, buy


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Three items, ten pieces of each."""
    return dataclasses.replace(settings, items=3)


def test_the_first_item_has_the_keys_of_a_sale_with_one(sale: Sale) -> None:
    """Further items add their number; all keys have the same hash tag, or no cluster could run a script over them."""
    assert Keys("demo").stock == Keys("demo", "1").stock == "sale:{demo}:stock"
    assert Keys("demo", "7").orders == "sale:{demo}:7:orders"
    assert Keys("demo", "7").answers == "sale:{demo}:answers"
    names = [name for keys in sale.keys_of.values() for name in vars(keys).values()]
    assert len({name[name.index("{") : name.index("}")] for name in names}) == 1
    assert len(set(names)) == len(names) - 2 * 3  # the answers, the opener and the key that does not exist are shared


@pytest.mark.parametrize("guard", ["etcd", "etcd-unfenced", "etcd-cohort", "etcd-batch", "thread", "redis-lock"])
def test_locks_of_different_items_do_not_wait_for_each_other(
    app: Flask, sale: Sale, crowd: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    """While the locks of items 1 and 3 are held, item 2 is bought; so the names do not nest either."""
    inside, go_on, enter = threading.Semaphore(0), threading.Event(), Purchase.enter

    def enter_and_stay(purchase: Purchase, token: Any) -> None:
        enter(purchase, token)
        if purchase.item != "2":
            inside.release()
            go_on.wait(WAIT_S)

    monkeypatch.setattr(Purchase, "enter", enter_and_stay)
    slow = [crowd.submit(buy, app, guard, item=item) for item in (1, 3)]
    assert inside.acquire(timeout=WAIT_S)
    assert inside.acquire(timeout=WAIT_S)
    assert buy(app, guard, item=2)["status"] == 200
    go_on.set()
    assert [purchase.result(WAIT_S)["status"] for purchase in slow] == [200, 200]


@pytest.mark.parametrize("fence", [1, None])
def test_a_key_used_for_two_items_at_once_buys_one(sale: Sale, fence: int | None) -> None:
    """Different items have different locks: of two purchases with one key that both have read, one can write."""
    shelves = [Inventory(sale, instance="shop-a", item=item) for item in ("1", "2")]
    purchases = [Purchase("ada", "etcd", item=item, key="k") for item in ("1", "2")]
    readings = [shelf.read(purchase, fence=fence) for shelf, purchase in zip(shelves, purchases, strict=True)]
    shelves[0].write(purchases[0], readings[0], fence=fence)
    with pytest.raises(KeyReused):
        shelves[1].write(purchases[1], readings[1], fence=fence)
    assert (sale.snapshot("1").stock, sale.snapshot("2").stock) == (9, 10)
