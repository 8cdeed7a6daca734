"""A sale of several items: each with its own stock, ledger, fence and lock; one Idempotency-Key for one purchase."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.config.settings import Settings
from app.guards import GUARDS
from app.sales.inventory import Inventory
from app.sales.purchase import Purchase
from app.sales.refusals import KeyReused
from app.sales.sale import Keys, Sale
from lock import Mutex
from tests.support.shops import WAIT_S, at_once, buy, ledger

each_guard = pytest.mark.parametrize("guard", [guard.name for guard in GUARDS])


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Three items, ten pieces of each."""
    return dataclasses.replace(settings, items=3)


def left(browser: FlaskClient) -> list[int]:
    """What is left of each item."""
    return [browser.get(f"/stock?item={item}").get_json()["stock"] for item in (1, 2, 3)]


def test_the_first_item_has_the_keys_of_a_sale_with_one(sale: Sale) -> None:
    """Further items add their number; all keys have the same hash tag, or no cluster could run a script over them."""
    assert Keys("demo").stock == Keys("demo", "1").stock == "sale:{demo}:stock"
    assert Keys("demo", "7").orders == "sale:{demo}:7:orders"
    assert Keys("demo", "7").answers == "sale:{demo}:answers"
    names = [name for keys in sale.keys_of.values() for name in vars(keys).values()]
    assert len({name[name.index("{") : name.index("}")] for name in names}) == 1
    assert (
        len(set(names)) == len(names) - 6
    )  # three items share the answers, the opener, and the key that does not exist


@each_guard
def test_each_item_is_sold_for_itself(app: Flask, sale: Sale, guard: str) -> None:
    """A purchase takes from its own item alone; answer and ledger say which; its key is refused for another item."""
    answer = buy(app, guard, item=2, key="k")
    assert (answer["outcome"], answer["item"], answer["stock"]) == ("sold", "2", 9)
    assert [(entry["order"], entry["item"]) for entry in ledger(sale, "2")] == [(answer["order"], "2")]
    assert sale.snapshot("2").verdict == "EXACT"
    assert buy(app, guard, item=1, key="k")["status"] == 422
    assert left(app.test_client()) == [10, 9, 10]


@each_guard
def test_one_item_may_be_sold_out_while_others_are_not(app: Flask, sale: Sale, guard: str) -> None:
    """An item that is sold out, and was seen to be, says nothing about the next one."""
    sale.client.set(sale.keys_of["3"].stock, 0)
    assert [buy(app, guard, item=item)["status"] for item in (3, 3, 1, 3, 2)] == [409, 409, 200, 409, 200]


@pytest.mark.parametrize("guard", ["etcd", "etcd-unfenced", "etcd-cohort", "etcd-batch", "thread", "redis-lock"])
def test_locks_of_different_items_do_not_wait_for_each_other(
    app: Flask, sale: Sale, crowd: ThreadPoolExecutor, guard: str
) -> None:
    """While one item's lock is held for a second, another item is bought; so the names do not nest either."""
    slow = [crowd.submit(buy, app, guard, item=item, hold_ms=1000) for item in (1, 3)]
    assert crowd.submit(buy, app, guard, item=2).result(WAIT_S)["status"] == 200
    assert not any(purchase.done() for purchase in slow)
    assert [purchase.result(WAIT_S)["status"] for purchase in slow] == [200, 200]


def test_the_lock_of_an_item_can_be_looked_at(browser: FlaskClient, settings: Settings, stranger: Mutex) -> None:
    """GET /lock?item= names the item's mutex and its holder."""
    name = f"flash-sale/{settings.sale}:2"
    with Mutex(stranger.session, name).acquire(timeout=WAIT_S) as hold:
        lock = browser.get("/lock?item=2").get_json()
        holder = lock["holder"]
        assert (lock["name"], holder["instance"], holder["token"]) == (name, "stranger", hold.token)
        assert browser.get("/lock").get_json()["holder"] is None


def test_a_reset_is_for_all_items(app: Flask, browser: FlaskClient, sale: Sale) -> None:
    """Every item has the new stock, an empty ledger, a fence at zero and a new generation; answers are forgotten."""
    before = [sale.client.get(keys.generation) for keys in sale.keys_of.values()]
    for number in (1, 2, 3):
        buy(app, item=number, key=f"k{number}")
    assert browser.post("/stock/reset", json={"stock": 4}).get_json()["stock"] == 4
    assert left(browser) == [4, 4, 4]
    for (item, keys), generation in zip(sale.keys_of.items(), before, strict=True):
        assert (sale.snapshot(item).orders, sale.client.get(keys.fence)) == (0, "0")
        assert sale.client.get(keys.generation) != generation
    assert buy(app, item=1, key="k1")["replayed"] is None


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


def test_each_item_has_its_own_fence(sale: Sale) -> None:
    """A high token at one item fences off no holder of another."""
    high, low = Purchase("ada", "etcd", item="1", token=1000), Purchase("bob", "etcd", item="2", token=1)
    Inventory(sale, instance="shop-a", item="1").read(high, fence=high.token)
    assert Inventory(sale, instance="shop-a", item="2").read(low, fence=low.token).stock == 10


@pytest.mark.parametrize(("method", "path"), [("POST", "/stock/reduce"), ("GET", "/stock"), ("GET", "/lock")])
def test_an_item_that_is_not_for_sale_is_a_bad_request(browser: FlaskClient, method: str, path: str) -> None:
    """Every route that takes an item names those there are, and the setting."""
    for item in ("0", "4", "-1", "x", "", "1,2", "1.0"):
        answer = browser.open(f"{path}?item={item}", method=method)
        assert (answer.status_code, answer.mimetype) == (400, "application/problem+json")
        assert "whole number from 1 to 3, as set by FLASHSALE_ITEMS." in answer.get_json()["detail"]


@pytest.mark.parametrize("guard", ["etcd", "etcd-cohort", "etcd-batch"])
def test_a_rush_over_all_items_is_exact_for_each(app: Flask, sale: Sale, guard: str) -> None:
    """Buyers of three items at once: each item is sold out exactly."""
    outcomes = at_once(45, lambda number: buy(app, guard, item=number % 3 + 1)["outcome"])
    assert (outcomes.count("sold"), outcomes.count("sold_out")) == (30, 15)
    assert [(sale.snapshot(item).verdict, sale.snapshot(item).stock) for item in sale.keys_of] == [("EXACT", 0)] * 3
