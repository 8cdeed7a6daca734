"""A sale of several items: each with its own stock, ledger, fence and lock; one Idempotency-Key for one purchase."""

from __future__ import annotations

import dataclasses
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app.config.settings import Settings
from app.guards import GUARDS
from app.sales.inventory import Inventory
from app.sales.purchase import Purchase
from app.sales.refusals import KeyReused
from app.sales.sale import Keys, Sale
from lock import Mutex, Session, connect

NAMES = [guard.name for guard in GUARDS]
each_guard = pytest.mark.parametrize("guard", NAMES)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Three items, ten pieces of each."""
    return dataclasses.replace(settings, items=3)


def buy(browser: FlaskClient, item: object, *, key: str | None = None, guard: str = "etcd") -> Any:
    """The answer to one purchase."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return browser.post(f"/stock/reduce?guard={guard}&item={item}&buyer=ada", headers=headers)


def left(browser: FlaskClient) -> list[int]:
    """What is left of each item."""
    return [browser.get(f"/stock?item={item}").get_json()["stock"] for item in (1, 2, 3)]


def test_the_first_item_has_the_keys_of_a_sale_with_one(settings: Settings) -> None:
    """Without items, keys and lock are called as they always were; further items add their number."""
    assert Keys("demo").stock == Keys("demo", "1").stock == "sale:{demo}:stock"
    assert Keys("demo", "7").orders == "sale:{demo}:7:orders"
    assert Keys("demo", "7").answers == "sale:{demo}:answers"


def test_all_items_are_in_one_slot(sale: Sale) -> None:
    """Every key of every item has the same hash tag, or no script could touch several in a cluster."""
    names = [name for keys in sale.keys_of.values() for name in vars(keys).values()]
    assert len({name[name.index("{") : name.index("}")] for name in names}) == 1
    assert len(set(names)) == len(names) - 4  # three items share the answers, and the key that does not exist


@each_guard
def test_each_item_is_sold_for_itself(browser: FlaskClient, sale: Sale, guard: str) -> None:
    """Under every guard a purchase takes from its own item alone, and its answer and ledger say which."""
    answer = buy(browser, 2, guard=guard).get_json()
    assert (answer["outcome"], answer["item"], answer["stock"]) == ("sold", "2", 9)
    assert left(browser) == [10, 9, 10]
    (entry,) = sale.client.lrange(sale.keys_of["2"].orders, 0, -1)
    assert (json.loads(entry)["order"], json.loads(entry)["item"]) == (answer["order"], "2")
    assert sale.snapshot("2").verdict == "EXACT"


@each_guard
def test_one_item_may_be_sold_out_while_others_are_not(browser: FlaskClient, sale: Sale, guard: str) -> None:
    """An item that is sold out, and was seen to be, says nothing about the next one."""
    sale.client.set(sale.keys_of["3"].stock, 0)
    assert [buy(browser, item, guard=guard).status_code for item in (3, 3, 1, 3, 2)] == [409, 409, 200, 409, 200]


@pytest.mark.parametrize("guard", ["etcd", "etcd-unfenced", "etcd-cohort", "etcd-batch", "thread", "redis-lock"])
def test_locks_of_different_items_do_not_wait_for_each_other(app: Flask, sale: Sale, guard: str) -> None:
    """While one item's lock is held for a second, another item is bought; so the names do not nest either."""
    with ThreadPoolExecutor(3) as threads:
        slow = [
            threads.submit(app.test_client().post, f"/stock/reduce?guard={guard}&item={n}&hold_ms=1500") for n in (1, 3)
        ]
        quick = threads.submit(buy, app.test_client(), 2, guard=guard).result(20)
        assert quick.status_code == 200
        assert not any(purchase.done() for purchase in slow)
        assert [purchase.result(20).status_code for purchase in slow] == [200, 200]


def test_the_lock_of_an_item_can_be_looked_at(browser: FlaskClient, settings: Settings) -> None:
    """GET /lock?item= names the item's mutex and who holds it."""
    name = f"flash-sale/{settings.sale}:2"
    with (
        connect(settings.etcd_endpoints) as client,
        Session(client, ttl=10, name="stranger") as session,
        Mutex(session, name).acquire(timeout=5) as hold,
    ):
        shown = browser.get("/lock?item=2").get_json()
        assert (shown["name"], shown["holder"]["instance"], shown["holder"]["token"]) == (
            name,
            "stranger",
            hold.token,
        )
        assert browser.get("/lock").get_json()["holder"] is None


def test_a_reset_is_for_all_items(browser: FlaskClient, sale: Sale) -> None:
    """Every item has the new stock, an empty ledger, a fence at zero and a new generation; answers are forgotten."""
    before = [sale.client.get(keys.generation) for keys in sale.keys_of.values()]
    for number in (1, 2, 3):
        buy(browser, number, key=f"k{number}")
    assert browser.post("/stock/reset", json={"stock": 4}).get_json()["stock"] == 4
    assert left(browser) == [4, 4, 4]
    for (item, keys), generation in zip(sale.keys_of.items(), before, strict=True):
        assert (sale.snapshot(item).orders, sale.client.get(keys.fence)) == (0, "0")
        assert sale.client.get(keys.generation) != generation
    assert "Idempotency-Replayed" not in buy(browser, 1, key="k1").headers


@each_guard
def test_a_key_is_for_one_purchase_whatever_the_item(browser: FlaskClient, guard: str) -> None:
    """The key of a purchase of one item is refused for another one, and nothing is sold."""
    assert buy(browser, 1, key="k", guard=guard).status_code == 200
    assert buy(browser, 2, key="k", guard=guard).status_code == 422
    assert left(browser) == [9, 10, 10]


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


def test_items_have_fences_of_their_own(sale: Sale) -> None:
    """A high token at one item fences nobody off at another."""
    high, low = Purchase("ada", "etcd", item="1"), Purchase("bob", "etcd", item="2")
    high.token, low.token = 1000, 1
    Inventory(sale, instance="shop-a", item="1").read(high, fence=high.token)
    assert Inventory(sale, instance="shop-a", item="2").read(low, fence=low.token).stock == 10


@pytest.mark.parametrize("item", ["0", "4", "-1", "x", "", "1,2", "1.0"])
@pytest.mark.parametrize("address", ["/stock/reduce", "/stock", "/lock"])
def test_an_item_that_is_not_for_sale_is_a_bad_request(browser: FlaskClient, address: str, item: str) -> None:
    """Every route that takes an item says which there are, and what says so."""
    method = "POST" if address == "/stock/reduce" else "GET"
    answer = browser.open(f"{address}?item={item}", method=method)
    assert (answer.status_code, answer.mimetype) == (400, "application/problem+json")
    assert "whole number from 1 to 3, as FLASHSALE_ITEMS has it." in answer.get_json()["detail"]


@pytest.mark.parametrize("guard", ["etcd", "etcd-cohort", "etcd-batch"])
def test_a_rush_over_all_items_is_exact_for_each(app: Flask, sale: Sale, guard: str) -> None:
    """Buyers of three items at once: each item is sold out exactly."""
    barrier = threading.Barrier(45)

    def click(number: int) -> str:
        barrier.wait()
        return str(buy(app.test_client(), number % 3 + 1, guard=guard).get_json()["outcome"])

    with ThreadPoolExecutor(45) as threads:
        outcomes = list(threads.map(click, range(45)))
    assert (outcomes.count("sold"), outcomes.count("sold_out")) == (30, 15)
    assert [(sale.snapshot(item).verdict, sale.snapshot(item).stock) for item in sale.keys_of] == [("EXACT", 0)] * 3
