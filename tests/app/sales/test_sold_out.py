"""The sold-out check, an answer without the lock: only after it was seen under the lock, and while it is true."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from flask import Flask

from app import services
from app.contract.outcomes import Outcome
from app.sales.purchase import Purchase
from app.sales.refusals import SaleReset
from app.sales.sale import Sale
from app.sales.stock import Stock
from lock import Mutex
from tests.support.overtaking import overtaken
from tests.support.shops import WAIT_S, Answer, buy, queue_behind
from tests.support.waiting import wait_until

WAITING = ["etcd", "etcd-batch"]  # etcd-cohort and etcd-unfenced ask in the same place; they are woken below
each_guard = pytest.mark.parametrize("guard", WAITING)


def outcomes(buyers: list[Future[Answer]]) -> list[str]:
    return [buyer.result(WAIT_S)["outcome"] for buyer in buyers]


@each_guard
def test_once_seen_it_needs_no_lock(app: Flask, other: Flask, sale: Sale, stranger: Mutex, guard: str) -> None:
    """Once seen under any guard, it needs no lock; a key keeps its order, or its answer after a delivery."""
    sale.reset(1)
    first = buy(app, guard, key="bought", buyer="ada")
    assert [buy(shop)["outcome"] for shop in (app, other)] == ["sold_out", "sold_out"]
    with stranger.acquire(timeout=WAIT_S):
        answers = [buy(app, guard, key=key) for key in ("k", "k", None)]
        again = [buy(shop, guard, key="bought", buyer="ada") for shop in (app, other)]
        assert buy(app, guard, key="bought", buyer="eve")["status"] == 422
    for each in again:
        assert (each["status"], each["replayed"]) == (200, "true")
        assert (each["order"], each["token"]) == (first["order"], first["token"])
    sale.client.set(sale.keys.stock, 5)
    answers.append(buy(app, guard, key="k"))
    told = [(answer["status"], answer["outcome"], answer["stock"], answer["token"]) for answer in answers]
    assert told == [(409, "sold_out", 0, None)] * 4
    assert [answer["replayed"] for answer in answers] == [None, "true", None, "true"]
    assert [answers[0]["held_ms"], answers[2]["held_ms"]] == [0, 0]


@pytest.mark.parametrize(
    ("guard", "new"), [*itertools.product(WAITING, ["process", "sale", "items"]), ("etcd", "items, sold again")]
)
def test_it_has_to_be_seen_under_the_lock(
    crowd: ThreadPoolExecutor, app: Flask, other: Flask, sale: Sale, stranger: Mutex, guard: str, new: str
) -> None:
    """A process that has not seen an empty stock needs the lock; so do all after a reset or a delivery."""
    shops = app, other
    sale.reset(0)
    if new != "process":
        assert [buy(shop)["outcome"] for shop in shops] == ["sold_out", "sold_out"]
    with stranger.acquire(timeout=WAIT_S):
        if new == "sale":
            sale.reset(5)
        elif new.startswith("items"):
            sale.client.incrby(sale.keys.stock, 2)
        buyers = [queue_behind(stranger, crowd, shop, guard) for shop in shops]
        if new == "items, sold again":
            sale.client.set(sale.keys.stock, 0)
            buyers += [queue_behind(stranger, crowd, shop, guard) for shop in shops]
    assert set(outcomes(buyers)) == {"sold" if new in ("sale", "items") else "sold_out"}


# One look for many


def test_one_look_is_enough_for_all_that_began_before_it(sale: Sale, item_stock: Stock) -> None:
    """A look at an empty stock answers purchases that began before it, without Redis, unless they have a key."""
    sale.reset(0)
    check, keyed = item_stock.known_sold_out, Purchase("eve", "etcd", key="k")
    assert check(Purchase("ada", "etcd")) is None, "none has looked yet"
    item_stock.sold_out_at = time.monotonic()
    waits, asks, looks = Purchase("cleo", "etcd"), Purchase("bob", "etcd"), list[str]()
    with overtaken(0, lambda: looks.append("asked")):
        assert check(asks)
    assert looks == ["asked"]
    sale.client.set(sale.keys.stock, 5)
    known = check(waits)
    assert known is not None
    assert (known.outcome, known.stock, known.token, known.replayed) == (Outcome.SOLD_OUT, 0, None, False)
    assert [check(keyed), check(Purchase("dan", "etcd"))] == [None, None]


@pytest.mark.parametrize("unlocked", [False, True])
@each_guard
def test_a_look_is_as_old_as_its_question(app: Flask, sale: Sale, guard: str, unlocked: bool) -> None:
    """A purchase that begins after the question does not get its answer: here a reset lies between, which ends it."""
    sale.reset(0)
    item_stock, clicks = services.of(app).guards["etcd"].stock("1"), list[Purchase]()
    buy(app, "redis-lua")  # so that its sale is known
    if unlocked:
        item_stock.sold_out_at = time.monotonic()
    with overtaken(0, lambda: clicks.append(Purchase("eve", "etcd"))):
        assert buy(app, guard)["outcome"] == "sold_out"
    sale.reset(5)
    (late,) = clicks
    with pytest.raises(SaleReset):
        item_stock.known_sold_out(late)


# Waking those that wait in vain


def test_a_whole_cohort_is_woken_when_it_is_sold_out(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex
) -> None:
    """With the last item gone, a cohort neither takes turns nor queues in etcd again."""
    cohort = services.of(app).sessions.cohort()
    sale.reset(1)
    with stranger.acquire(timeout=WAIT_S):
        buyers = [crowd.submit(buy, app, "etcd-cohort") for _ in range(8)]
        wait_until(lambda: len(cohort._cohort.waits) == 8)
    assert sorted(outcomes(buyers)) == ["sold"] + ["sold_out"] * 7
    highest = str(sale.client.get(sale.keys.fence))
    assert int(highest.split(".")[1]) == 2  # one buys, one finds nothing left, six need no turn


@pytest.mark.parametrize("guard", ["etcd", "etcd-unfenced"])
def test_those_that_wait_are_woken_when_it_is_sold_out(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex, guard: str
) -> None:
    """When one buyer sees it under the lock, those behind it in the same instance need no turn."""
    sale.reset(1)
    with stranger.acquire(timeout=WAIT_S):
        first = [queue_behind(stranger, crowd, app, guard) for _ in range(2)]
        between = crowd.submit(stranger.acquire, timeout=WAIT_S)
        wait_until(lambda: len(stranger.contenders()) == 4)
        last = [queue_behind(stranger, crowd, app, guard) for _ in range(5)]
    with between.result(WAIT_S):  # the last five cannot have had a turn
        assert sorted(outcomes(first + last)) == ["sold"] + ["sold_out"] * 6
