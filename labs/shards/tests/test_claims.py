"""An Idempotency-Key buys once: under any two guards, in a shard or in the treasury, and wherever a purchase dies."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any
from zlib import crc32

import pytest
from flask import Flask

from app import services
from app.sales.sale import Sale
from labs.shards.claims import CLAIM
from labs.shards.shards import SELL
from tests.support.overtaking import answer_lost, overtaken
from tests.support.shops import WAIT_S, WAYS, Answer, at_once, buy, ledger

SHARDED = "etcd-sharded"
OTHERS = [way for way in WAYS if way != SHARDED]
Pair = tuple[Flask, Flask]


class Died(BaseException):
    """The end of a process."""


@pytest.fixture
def shops(make: Callable[..., Flask], sale: Sale) -> Pair:
    """Two instances that sell two items."""
    assert sale.generation
    made = make(items=2), make(items=2, instance="shop-b")
    services.of(made[0]).sale.reset(100)
    return made


def orders(shop: Flask) -> list[dict[str, Any]]:
    """Of both items."""
    own = services.of(shop).sale
    return [entry for item in own.keys_of for entry in ledger(own, item)]


def buy_item(shop: Flask, way: str, key: str, item: int = 1, buyer: str = "ada") -> Answer:
    return buy(shop, way, key=key, buyer=buyer, item=item)


@pytest.mark.parametrize("first", WAYS)
def test_a_key_buys_once_under_any_two_guards(shops: Pair, first: str) -> None:
    """The same buyer tries each guard next, for this item and another one: the first answer or 422, and one order."""
    for bought, second in enumerate(WAYS):
        sold = buy_item(shops[0], first, second)
        again, other = (buy_item(shops[1], second, second, item) for item in (1, 2))
        assert (sold["status"], other["status"], len(orders(shops[0]))) == (200, 422, bought + 1), second
        told = [again[name] for name in ("status", "order", "guard", "replayed")]
        assert told == [200, sold["order"], first, "true"], second


def test_that_all_is_sold_is_told_alike(shops: Pair) -> None:
    """The first answer is given again, whichever guard has told it."""
    services.of(shops[0]).sale.reset(0)
    for first, second in dict.fromkeys([*((SHARDED, way) for way in WAYS), *((way, SHARDED) for way in WAYS)]):
        told, again = (
            buy_item(shop, way, f"{first} {second}") for shop, way in zip(shops, (first, second), strict=True)
        )
        assert (told["status"], told["replayed"]) == (409, None)
        assert (again["status"], again["replayed"]) == (409, "true")


def die() -> None:
    raise Died


@pytest.mark.parametrize("second", [OTHERS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS[1:])])
def test_wherever_a_purchase_dies_its_key_buys_once(shops: Pair, second: str) -> None:
    """Once the key is claimed the other guard is in doubt and buys nothing; a retry in the shards has the order."""
    app, other = shops
    statuses = Counter[int]()
    for place in itertools.count():
        services.of(app).sale.reset(100)  # the shards are empty, so items have to be brought
        with suppress(Died), overtaken(place, die):
            buy_item(app, SHARDED, "k")
            break
        tried = buy_item(other, second, "k")
        statuses[tried["status"]] += 1
        if tried["status"] == 503:
            assert (tried["in_doubt"], "unfinished under etcd-sharded; retry it there" in tried["detail"]) == (
                True,
                True,
            )
            assert [buy_item(other, second, "k", *another)["status"] for another in ((2,), (1, "bob"))] == [422, 422]
        finished, last = buy_item(other, SHARDED, "k"), buy_item(app, second, "k")
        (order,) = orders(app)
        bought = [each["order"] for each in (finished, last) if each["status"] == 200]
        assert bought == [order["order"]] * 2
    assert statuses[503] >= 5


def test_a_lost_answer_of_the_claim_or_of_the_sale_costs_nothing(shops: Pair) -> None:
    """Nothing was sold without the claim; without the answer a purchase in the shard is in doubt; a retry tells."""
    app, other = shops
    assert buy_item(app, SHARDED, "first")["status"] == 200
    with answer_lost(CLAIM.sha.encode()):
        lost = buy_item(app, SHARDED, "a")
    assert (lost["status"], lost["in_doubt"], len(orders(app))) == (503, False, 1)
    with answer_lost(SELL.sha.encode()):
        lost = buy_item(app, SHARDED, "b")
    assert (lost["status"], lost["in_doubt"]) == (503, True)
    with answer_lost(b"\r\nsold\r\n"):
        told = buy_item(app, SHARDED, "c")
    assert (told["status"], told["replayed"]) == (200, None)
    for key in "abc":
        assert {buy_item(shop, SHARDED, key)["status"] for shop in shops} == {200}
        assert buy_item(other, "redis-lua", key)["replayed"] == "true"
    assert len(orders(app)) == 4


@pytest.mark.parametrize(("before", "outcome"), [("the same shard", "sold"), ("no shard", "lock_lost")])
def test_a_claim_is_worth_nothing_in_the_next_sale(
    shops: Pair, crowd: ThreadPoolExecutor, before: str, outcome: str
) -> None:
    """A purchase that claimed its key before a reset buys in that sale, or is refused; its key buys again."""
    app, other = shops
    if before == "the same shard":  # which has items then
        beside = next(key for key in map(str, itertools.count()) if crc32(key.encode()) % 4 == crc32(b"k") % 4)
        assert buy_item(app, SHARDED, beside)["status"] == 200
    at_shard, is_reset = threading.Event(), threading.Event()

    def wait_at_shard() -> None:
        at_shard.set()
        assert is_reset.wait(WAIT_S)

    with overtaken(SELL.sha.encode(), wait_at_shard):
        buying = crowd.submit(buy_item, app, SHARDED, "k")
        assert at_shard.wait(WAIT_S)
        services.of(other).sale.reset(100)
        is_reset.set()
        late = buying.result(WAIT_S)
    assert (late["outcome"], orders(app)) == (outcome, [])
    assert [buy_item(app, way, "k")["status"] for way in ("redis-lua", SHARDED)] == [200, 200]
    assert len(orders(app)) == 1


def test_a_key_that_is_clicked_everywhere_at_once_buys_once(shops: Pair) -> None:
    """Twelve clicks under several guards at two instances; those in doubt are told by a retry in the shards."""
    ways = [SHARDED, "redis-lua", "etcd", SHARDED, "etcd-batch", "redis-watch"]

    def click(key: str, number: int) -> Answer:
        return buy_item(shops[number % 2], ways[number // 2], key)

    for key in map(str, range(20)):
        answers = at_once(12, partial(click, key))
        assert {answer["status"] for answer in answers} <= {200, 503}
        assert all(answer["in_doubt"] for answer in answers if answer["status"] == 503)
        told = buy_item(shops[0], SHARDED, key)
        assert {answer["order"] for answer in answers if answer["status"] == 200} <= {told["order"]}
    assert len(orders(shops[0])) == 20
