"""Carts: several items all or nothing, one lock and one fencing token for each."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from flask import Flask

from app import services
from app.config.settings import Settings
from app.sales.purchase import Purchase, Section
from app.sales.refusals import FencedOff
from app.sales.sale import Sale
from labs.carts.shop import Carts
from tests.support.shops import Answer, at_once, ledger, section_of
from tests.support.shops import buy as buy_one


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"items": 4})


def buy(shop: Flask, *items: int, key: str | None = None) -> Answer:
    return buy_one(shop, "cart", items=",".join(map(str, items)), buyer="ada", key=key)


def stocks(sale: Sale) -> list[int]:
    return [sale.snapshot(item).stock for item in sale.keys_of]


def test_a_cart_is_one_order_in_several_ledgers(app: Flask, sale: Sale) -> None:
    """Each item loses one piece, and each ledger has the order with the token of that item's lock."""
    answer = app.test_client().post("/cart", json={"items": [4, 1, 2], "buyer": "ada"})
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
    assert {sale.snapshot(item).judge().sentence for item in sale.keys_of} == {"EXACT"}
    assert answer.headers["Server-Timing"].startswith("wait;")


def test_a_cart_is_bought_whole_or_not_at_all(app: Flask, sale: Sale) -> None:
    """If one item is sold out, nothing is taken; the answer shows each stock, and a retry the same after a delivery."""
    sale.client.set(sale.keys_of["2"].stock, 0)
    answer = buy(app, 1, 2, 3, key="k")
    assert (answer["status"], answer["type"]) == (409, "urn:stock-flash-sale:problem:sold_out")
    assert (answer["outcome"], answer["order"], answer["stock"]) == ("sold_out", None, {"1": 10, "2": 0, "3": 10})
    assert stocks(sale) == [10, 0, 10, 10]
    assert [ledger(sale, item) for item in sale.keys_of] == [[], [], [], []]
    sale.client.set(sale.keys_of["2"].stock, 5)
    again = buy(app, 1, 2, 3, key="k")
    assert (again["status"], again["replayed"], again["stock"]) == (409, "true", answer["stock"])


def test_a_key_is_for_one_cart(app: Flask, sale: Sale) -> None:
    """A retry, in any order, gets the first order; another cart or a single item with the same key is refused."""
    first = buy(app, 1, 2, key="cart")
    for items in ((1, 2), (2, 1)):
        again = buy(app, *items, key="cart")
        assert (again["status"], first["replayed"], again["replayed"]) == (200, None, "true")
        assert [again[name] == first[name] for name in ("order", "stock", "token")] == [True] * 3
    buy(app, 3, key="small cart")
    buy_one(app, item=4, buyer="ada", key="alone")
    refused = [buy(app, 1, 3, key="cart"), buy(app, 4, key="alone"), buy(app, 3, 4, key="alone")]
    refused += [buy_one(app, item=item, buyer="ada", key=key) for item, key in ((1, "cart"), (3, "small cart"))]
    assert [answer["status"] for answer in refused] == [422] * 5
    assert stocks(sale) == [9, 9, 9, 9]


def test_overlapping_carts_are_exact_and_never_wait_in_a_circle(app: Flask, other: Flask, sale: Sale) -> None:
    """Carts of all pairs, in either order, and single purchases at two instances: every ledger is exact."""
    carts = list(itertools.permutations(range(1, 5), 2)) * 2
    singles = list(zip([1, 2, 3, 4] * 2, itertools.cycle(["etcd", "etcd-cohort", "etcd-batch"])))

    def fill(number: int) -> Answer:
        shop = (app, other)[number % 2]
        if number < len(carts):
            return buy(shop, *carts[number])
        item, guard = singles[number - len(carts)]
        return buy_one(shop, guard, item=item)

    answers = at_once(len(carts) + len(singles), fill)
    taken = Counter(item for answer in answers if answer["outcome"] == "sold" for item in answer["item"].split(","))
    assert {answer["outcome"] for answer in answers} <= {"sold", "sold_out"}
    for item in sale.keys_of:
        now = sale.snapshot(item)
        assert (now.judge().exact, now.stock) == (True, 10 - taken[item])
    refused = [answer for answer in answers if answer["outcome"] == "sold_out"]
    assert all(0 in (answer["stock"].values() if isinstance(answer["stock"], dict) else [0]) for answer in refused)


def test_one_high_fence_refuses_the_whole_cart(app: Flask, sale: Sale, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a higher token was at one of the items, nothing is written; the answer names that item's token."""
    commit, tokens = Carts._commit, dict[str, Any]()

    def noted(carts: Carts, section: Section, held: Any) -> Any:
        tokens.update(held)
        return commit(carts, section, held)

    monkeypatch.setattr(Carts, "_commit", noted)
    sale.client.set(sale.keys_of["4"].fence, f"{2**62:020d}")
    answer = buy(app, 1, 2, 4)
    assert (answer["status"], answer["outcome"]) == (503, "lock_lost")
    assert f"token {tokens['4']} is fenced off, {2**62} was here before" in answer["detail"]
    assert stocks(sale) == [10, 10, 10, 10]
    assert sale.client.get(sale.keys_of["2"].fence) == "0"


def test_a_cart_fences_every_item(app: Flask, sale: Sale) -> None:
    """After a cart, holders from before it are refused at each of its items, and at no other."""
    tokens = buy(app, 1, 2)["token"]
    stock_of = services.of(app).guards["etcd"].tools.stocks
    for item in ("1", "2"):
        late = section_of(Purchase("bob", "etcd", item=item), tokens[item] - 1)
        with pytest.raises(FencedOff):
            stock_of[item].read(late, fence=late.token)
    assert stock_of["3"].read(section_of(Purchase("bob", "etcd", item="3"), 1), fence=1).stock == 10


NO_ITEM = "whole number from 1 to 4, as set by FLASHSALE_ITEMS."


@pytest.mark.parametrize(
    ("query", "body", "advice"),
    [
        *((query, "", "1 to 20 whole numbers") for query in ("", "?items=1" + 20 * ",1")),
        *(("", f'{{"items": {items}}}', "1 to 20 whole numbers") for items in ("[]", "null")),
        ("", '{"items": [1, "1"]}', "each one once"),
        *((f"?items={items}", "", NO_ITEM) for items in ("0", "1,5", "1,,2")),
        ("?items=1&guard=none", "", "use items, hold_ms, buyer"),
        ("?items=1", '{"items": [1]}', "Give each parameter once"),
        ("?items=1&items=1", "", "Give each parameter once"),
    ],
)
def test_a_cart_that_cannot_be_is_refused(app: Flask, sale: Sale, query: str, body: str, advice: str) -> None:
    """Nothing, too much, an item twice, or one that there is not is a 400 with advice; nothing is bought."""
    answer = app.test_client().post(f"/cart{query}", data=body, content_type="application/json")
    assert (answer.status_code, advice in answer.get_json()["detail"]) == (400, True)
    assert stocks(sale) == [10, 10, 10, 10]
