"""Carts: several items all or nothing, one lock and one fencing token for each."""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app import services
from app.config.settings import Settings
from app.sales.purchase import Purchase
from app.sales.refusals import FencedOff
from app.sales.sale import Sale
from lock import Mutex
from tests.support.waiting import wait_until


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Four items, ten pieces of each."""
    return dataclasses.replace(settings, items=4)


def buy(browser: FlaskClient, *items: int, key: str | None = None, **options: Any) -> Any:
    """The answer to one cart."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return browser.post("/cart", json={"items": list(items), "buyer": "ada", **options}, headers=headers)


def stocks(sale: Sale) -> list[int]:
    """What is left of each item."""
    return [sale.snapshot(item).stock for item in sale.keys_of]


def ledger(sale: Sale, item: str) -> list[dict[str, Any]]:
    """The entries of one item's ledger."""
    return [json.loads(entry) for entry in sale.client.lrange(sale.keys_of[item].orders, 0, -1)]


def test_a_cart_is_one_order_in_several_ledgers(browser: FlaskClient, sale: Sale) -> None:
    """Each item loses one piece, and each ledger has the order, with the token of that item's own lock."""
    answer = buy(browser, 4, 1, 2)
    body = answer.get_json()
    assert answer.status_code == 200
    assert (body["outcome"], body["guard"], body["item"], body["instance"]) == ("sold", "cart", "1,2,4", "shop-a")
    assert body["stock"] == {"1": 9, "2": 9, "4": 9}
    assert stocks(sale) == [9, 9, 10, 9]
    assert [sale.snapshot(item).lucky for item in sale.keys_of] == [1, 1, 0, 1]
    assert set(body["token"]) == {"1", "2", "4"}
    for item, token in body["token"].items():
        (entry,) = ledger(sale, item)
        assert (entry["order"], entry["item"], entry["token"], entry["buyer"]) == (body["order"], item, token, "ada")
    assert {sale.snapshot(item).verdict for item in sale.keys_of} == {"EXACT"}
    assert set(answer.headers["Server-Timing"].split(";")[0:1]) == {"wait"}


def test_a_cart_may_be_named_in_the_query(browser: FlaskClient, sale: Sale) -> None:
    """POST /cart?items=1,4 is the same as the list in JSON."""
    assert browser.post("/cart?items=4,1&buyer=ada").get_json()["item"] == "1,4"
    assert stocks(sale) == [9, 10, 10, 9]


def test_what_is_not_there_as_a_whole_is_not_bought_at_all(browser: FlaskClient, sale: Sale) -> None:
    """If one item is sold out, nothing is taken; the answer shows what is left of each."""
    sale.client.set(sale.keys_of["2"].stock, 0)
    answer = buy(browser, 1, 2, 3)
    body = answer.get_json()
    assert (answer.status_code, answer.mimetype) == (409, "application/problem+json")
    assert (body["outcome"], body["order"], body["stock"]) == ("sold_out", None, {"1": 10, "2": 0, "3": 10})
    assert stocks(sale) == [10, 0, 10, 10]
    assert [ledger(sale, item) for item in sale.keys_of] == [[], [], [], []]


@pytest.mark.parametrize("items", [[1, 2], [2, 1]])
def test_a_retry_buys_once(browser: FlaskClient, sale: Sale, items: list[int]) -> None:
    """The same cart with the same key, in whatever order, gets its first order again."""
    first = buy(browser, 1, 2, key="k").get_json()
    again = buy(browser, *items, key="k")
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert {name: again.get_json()[name] for name in ("order", "stock", "token")} == {
        name: first[name] for name in ("order", "stock", "token")
    }
    assert stocks(sale) == [9, 9, 10, 10]


def test_a_key_is_for_one_cart(browser: FlaskClient, sale: Sale) -> None:
    """Its key is refused for another cart and for a single item, and a single item's key for a cart."""
    buy(browser, 1, 2, key="k")
    assert buy(browser, 1, 3, key="k").status_code == 422
    assert browser.post("/stock/reduce?item=1&buyer=ada", headers={"Idempotency-Key": "k"}).status_code == 422
    browser.post("/stock/reduce?item=3&buyer=ada", headers={"Idempotency-Key": "one"})
    assert buy(browser, 3, 4, key="one").status_code == 422
    assert stocks(sale) == [9, 9, 9, 10]


def test_a_cart_of_one_item_is_not_that_item_alone(browser: FlaskClient, sale: Sale) -> None:
    """Their answers differ in form, so the key of the one is refused for the other, although the item is the same."""
    buy(browser, 1, key="cart")
    assert browser.post("/stock/reduce?item=1&buyer=ada", headers={"Idempotency-Key": "cart"}).status_code == 422
    browser.post("/stock/reduce?item=2&buyer=ada", headers={"Idempotency-Key": "alone"})
    assert buy(browser, 2, key="alone").status_code == 422
    assert buy(browser, 1, key="cart").headers["Idempotency-Replayed"] == "true"
    assert stocks(sale) == [9, 9, 10, 10]


def test_a_cart_that_was_sold_out_is_told_so_again(browser: FlaskClient, sale: Sale) -> None:
    """The first answer to a key stays, also after a delivery."""
    sale.client.set(sale.keys_of["1"].stock, 0)
    buy(browser, 1, 2, key="k")
    sale.client.set(sale.keys_of["1"].stock, 5)
    again = buy(browser, 1, 2, key="k")
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (409, "true")
    assert again.get_json()["stock"] == {"1": 0, "2": 10}


def test_overlapping_carts_are_exact_and_never_wait_in_a_circle(app: Flask, other: Flask, sale: Sale) -> None:
    """Buyers of all pairs, in either order, at two instances, with single purchases among them: all adds up."""
    carts = list(itertools.permutations(range(1, 5), 2)) * 2
    barrier = threading.Barrier(len(carts) + 8)
    guards = itertools.cycle(["etcd", "etcd-cohort", "etcd-batch"])
    singles = [(number % 4 + 1, next(guards)) for number in range(8)]

    def fill(number: int) -> Any:
        browser = (app, other)[number % 2].test_client()
        barrier.wait()
        if number < len(carts):
            return buy(browser, *carts[number]).get_json()
        item, guard = singles[number - len(carts)]
        return browser.post(f"/stock/reduce?guard={guard}&item={item}").get_json()

    with ThreadPoolExecutor(len(carts) + 8) as threads:
        answers = list(threads.map(fill, range(len(carts) + 8)))
    taken = Counter(item for answer in answers if answer["outcome"] == "sold" for item in answer["item"].split(","))
    assert {answer["outcome"] for answer in answers} <= {"sold", "sold_out"}
    for item in sale.keys_of:
        now = sale.snapshot(item)
        assert (now.verdict, now.stock) == ("EXACT", 10 - taken[item])
    refused = [answer for answer in answers if answer["outcome"] == "sold_out"]
    assert all(0 in (answer["stock"].values() if isinstance(answer["stock"], dict) else [0]) for answer in refused)


def test_a_cart_waits_for_each_of_its_locks(
    browser: FlaskClient, make: Callable[..., Flask], settings: Settings, sale: Sale, stranger: Mutex
) -> None:
    """While somebody holds one of the locks, the cart gets lock_timeout and nothing; the other locks are free again."""
    app = make(lock_timeout=1.0)
    services.of(app).sessions.session()  # or its making would count
    with Mutex(stranger.session, f"flash-sale/{settings.sale}:3").acquire(timeout=20):
        answer = buy(app.test_client(), 1, 3)
        assert (answer.status_code, answer.get_json()["outcome"]) == (503, "lock_timeout")
        assert "stranger" in answer.get_json()["detail"]
        assert browser.post("/stock/reduce?item=1").status_code == 200
    assert stocks(sale) == [9, 10, 10, 10]


@pytest.mark.parametrize("item", ["1", "4"])
def test_one_high_fence_refuses_the_whole_cart(
    app: Flask, sale: Sale, item: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a higher token was at one of the items, nothing of the cart is written; the answer tells that item's token."""
    carts = services.of(app).shop.carts
    commit, tokens = carts._commit, dict[str, Any]()

    def noted(purchase: Purchase, held: Any) -> Any:
        tokens.update(held)
        return commit(purchase, held)

    monkeypatch.setattr(carts, "_commit", noted)
    sale.client.set(sale.keys_of[item].fence, f"{2**62:020d}")
    answer = buy(app.test_client(), 1, 2, 4)
    assert (answer.status_code, answer.get_json()["outcome"]) == (503, "lock_lost")
    assert f"token {tokens[item]} is fenced off, {2**62} was here before" in answer.get_json()["detail"]
    assert stocks(sale) == [10, 10, 10, 10]
    assert sale.client.get(sale.keys_of["2"].fence) == "0"


def test_a_cart_fences_every_item(app: Flask, sale: Sale) -> None:
    """After a cart, holders from before it are refused at each of its items, and at no other."""
    tokens = buy(app.test_client(), 1, 2).get_json()["token"]
    stocks = services.of(app).shop.seller_of["etcd"].tools.stocks
    for item in ("1", "2"):
        late = Purchase("bob", "etcd", item=item)
        late.token = tokens[item] - 1
        with pytest.raises(FencedOff):
            stocks[item].read(late, fence=tokens[item] - 1)
    free = Purchase("bob", "etcd", item="3")
    free.token = 1
    assert stocks["3"].read(free, fence=1).stock == 10


def test_a_lost_lock_buys_nothing(app: Flask, settings: Settings, sale: Sale, stranger: Mutex) -> None:
    """If one of the locks is deleted during the think time, the cart gets lock_lost and nothing is written."""
    mutex = Mutex(stranger.session, f"flash-sale/{settings.sale}:2")
    with ThreadPoolExecutor(1) as thread:
        cart = thread.submit(buy, app.test_client(), 1, 2, hold_ms=1500)
        wait_until(mutex.contenders)
        (holder,) = mutex.contenders()
        stranger.session.client.delete(holder.key, holder.token)
        assert cart.result(20).get_json()["outcome"] == "lock_lost"
    assert stocks(sale) == [10, 10, 10, 10]


@pytest.mark.parametrize(
    ("items", "advice"),
    [
        ([], "1 to 20 whole numbers"),
        ("", "whole number from 1 to 4"),
        (None, "1 to 20 whole numbers"),
        ({"1": 1}, "1 to 20 whole numbers"),
        ([1] * 21, "1 to 20 whole numbers"),
        ([1, 1], "each one once"),
        ([1, "1"], "each one once"),
        ([0], "whole number from 1 to 4"),
        ([1, 5], "whole number from 1 to 4, as FLASHSALE_ITEMS has it."),
        ([True], "whole number from 1 to 4"),
        ([[1]], "whole number from 1 to 4"),
        ("1,,2", "whole number from 1 to 4"),
        ("1;2", "whole number from 1 to 4"),
    ],
)
def test_a_bad_cart_is_a_bad_request(browser: FlaskClient, sale: Sale, items: object, advice: str) -> None:
    """A cart that cannot be is a 400 that says what to give, and nothing is sold."""
    answer = browser.post("/cart", json={"items": items})
    assert (answer.status_code, answer.mimetype) == (400, "application/problem+json")
    assert advice in answer.get_json()["detail"]
    assert stocks(sale) == [10, 10, 10, 10]


def test_a_cart_has_no_guard(browser: FlaskClient) -> None:
    """Carts are always bought under the locks: asking for a guard is a 400, and a missing cart too."""
    assert "use items, hold_ms, buyer" in browser.post("/cart?items=1&guard=none").get_json()["detail"]
    assert browser.post("/cart").status_code == 400
    assert browser.get("/cart").status_code == 405
