"""The short cut, "sold out" without the lock: only after it was seen under the lock, and only while it is true."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app import create_app, services
from app.config.settings import Settings
from app.sales.inventory import Inventory
from app.sales.purchase import Outcome, Purchase
from app.sales.sale import Sale
from lock import Hold, Mutex, Session, connect
from tests.support.overtaking import overtaken
from tests.support.waiting import wait_until

GUARDS = ("etcd", "etcd-unfenced", "etcd-cohort", "etcd-batch")
WAIT_S = 20.0  # far more than anything here takes
each_guard = pytest.mark.parametrize("guard", GUARDS)


@pytest.fixture
def other(settings: Settings) -> Iterator[FlaskClient]:
    """A buyer at a second instance."""
    app = create_app(dataclasses.replace(settings, instance="shop-b"))
    yield app.test_client()
    services.of(app).close()


@pytest.fixture
def stranger(settings: Settings) -> Iterator[Mutex]:
    """The sale's mutex in the hands of another program."""
    with connect(settings.etcd_endpoints) as client, Session(client, ttl=10, name="stranger") as session:
        yield Mutex(session, f"flash-sale/{settings.sale}")


@pytest.fixture
def seen(browser: FlaskClient, other: FlaskClient, sale: Sale) -> None:
    """Both instances have seen under the lock that the sale is sold out."""
    sale.reset(0)
    for shop in (browser, other):
        assert buy(shop, "etcd") == "sold_out"


@pytest.fixture
def crowd() -> Iterator[ThreadPoolExecutor]:
    """Threads for buyers."""
    with ThreadPoolExecutor(16) as threads:
        yield threads


def buy(shop: FlaskClient, guard: str, **query: str) -> str:
    """The outcome of one purchase."""
    answer = shop.post("/stock/reduce", query_string={"guard": guard, **query})
    return str(answer.get_json()["outcome"])


def queue_up(crowd: ThreadPoolExecutor, shop: FlaskClient, guard: str, *, behind: Mutex) -> Future[str]:
    """A buyer who needs the lock: he stands in its queue when this returns."""
    before = len(behind.contenders())
    buyer = crowd.submit(buy, shop.application.test_client(), guard)
    wait_until(lambda: len(behind.contenders()) > before)
    return buyer


@each_guard
def test_the_first_one_needs_the_lock(
    crowd: ThreadPoolExecutor, browser: FlaskClient, sale: Sale, stranger: Mutex, guard: str
) -> None:
    """An instance that has not seen it under the lock does not answer "sold out" without the lock."""
    sale.reset(0)
    with stranger.acquire(timeout=WAIT_S):
        first = queue_up(crowd, browser, guard, behind=stranger)
    assert first.result(WAIT_S) == "sold_out"


@each_guard
@pytest.mark.usefixtures("seen")
def test_later_ones_do_not(browser: FlaskClient, stranger: Mutex, guard: str) -> None:
    """Once seen under any fenced guard, it is answered while somebody else has the lock; no token is claimed."""
    with stranger.acquire(timeout=WAIT_S):
        answer = browser.post(f"/stock/reduce?guard={guard}")
    body = answer.get_json()
    assert (answer.status_code, body["outcome"], body["stock"], body["token"]) == (409, "sold_out", 0, None)
    assert body["held_ms"] == 0


@each_guard
@pytest.mark.usefixtures("seen")
def test_a_reset_ends_it_everywhere(
    crowd: ThreadPoolExecutor, browser: FlaskClient, other: FlaskClient, stranger: Mutex, guard: str
) -> None:
    """After a reset by one instance, both go back to the lock; neither says "sold out" even once."""
    with stranger.acquire(timeout=WAIT_S):
        assert browser.post("/stock/reset", json={"stock": 5}).status_code == 200
        buyers = [queue_up(crowd, shop, guard, behind=stranger) for shop in (browser, other)]
    assert [buyer.result(WAIT_S) for buyer in buyers] == ["sold", "sold"]


@each_guard
@pytest.mark.usefixtures("seen")
def test_a_delivery_ends_it_too(
    crowd: ThreadPoolExecutor, browser: FlaskClient, sale: Sale, stranger: Mutex, guard: str
) -> None:
    """Items that are put on the shelf by whatever means are sold, without anybody telling the instances."""
    with stranger.acquire(timeout=WAIT_S):
        sale.client.incrby(sale.keys.stock, 1)
        buyer = queue_up(crowd, browser, guard, behind=stranger)
    assert buyer.result(WAIT_S) == "sold"


@pytest.mark.usefixtures("seen")
def test_what_ended_begins_again_under_the_lock(
    crowd: ThreadPoolExecutor, browser: FlaskClient, sale: Sale, stranger: Mutex
) -> None:
    """After a delivery, a stock that is empty again has to be seen under the lock again."""
    with stranger.acquire(timeout=WAIT_S):
        buyers = []
        for stock in (1, 0):
            sale.client.set(sale.keys.stock, stock)
            buyers.append(queue_up(crowd, browser, "etcd", behind=stranger))
    assert [buyer.result(WAIT_S) for buyer in buyers] == ["sold_out", "sold_out"]


@each_guard
def test_no_stale_answer_after_a_reset(app: Flask, other: FlaskClient, guard: str) -> None:
    """However many ask at two instances, nobody who asks after a reset was acknowledged hears of the sale before it."""
    resets: list[float] = []
    stop = threading.Event()
    answers: list[tuple[float, str]] = []

    def keep_asking(shop: FlaskClient) -> None:
        while not stop.is_set():
            asked = time.monotonic()
            answers.append((asked, buy(shop, guard)))

    def await_more() -> None:
        seen = len(answers) + 8
        wait_until(lambda: len(answers) >= seen)

    admin = app.test_client()
    shops = [app.test_client(), app.test_client(), other, other.application.test_client()]
    with ThreadPoolExecutor(len(shops)) as threads:
        for shop in shops:
            threads.submit(keep_asking, shop)
        try:
            for _ in range(15):
                admin.post("/stock/reset", json={"stock": 0})
                await_more()
                admin.post("/stock/reset", json={"stock": 1_000_000})
                resets.append(time.monotonic())
                await_more()
                emptied = time.monotonic()
                stale = [asked for asked, outcome in answers if resets[-1] < asked < emptied and outcome == "sold_out"]
                assert stale == []
        finally:
            stop.set()
    assert {outcome for _, outcome in answers} >= {"sold", "sold_out"}


@each_guard
def test_a_retry_finds_its_order(browser: FlaskClient, other: FlaskClient, stranger: Mutex, guard: str) -> None:
    """Who bought and asks again with the same key when all is sold gets the order, without the lock."""
    browser.post("/stock/reset", json={"stock": 1})
    first = browser.post(f"/stock/reduce?guard={guard}&buyer=ada", headers={"Idempotency-Key": "k"}).get_json()
    for shop in (browser, other):
        assert buy(shop, guard) == "sold_out"
    with stranger.acquire(timeout=WAIT_S):
        for shop in (browser, other):
            again = shop.post(f"/stock/reduce?guard={guard}&buyer=ada", headers={"Idempotency-Key": "k"})
            assert (again.status_code, again.headers["Idempotency-Replayed"]) == (200, "true")
            assert (again.get_json()["order"], again.get_json()["token"]) == (first["order"], first["token"])
            wrong = shop.post(f"/stock/reduce?guard={guard}&buyer=eve", headers={"Idempotency-Key": "k"})
            assert wrong.status_code == 422


@each_guard
def test_a_key_that_was_told_sold_out_is_told_so_again(
    browser: FlaskClient, sale: Sale, stranger: Mutex, guard: str
) -> None:
    """The answer without the lock is the first answer to its key: after a delivery it is given again."""
    sale.reset(0)
    assert buy(browser, guard) == "sold_out"
    with stranger.acquire(timeout=WAIT_S):
        for replayed in (None, "true"):
            answer = browser.post(f"/stock/reduce?guard={guard}&buyer=ada", headers={"Idempotency-Key": "k"})
            assert (answer.status_code, answer.headers.get("Idempotency-Replayed")) == (409, replayed)
    sale.client.set(sale.keys.stock, 5)
    answer = browser.post(f"/stock/reduce?guard={guard}&buyer=ada", headers={"Idempotency-Key": "k"})
    assert (answer.status_code, answer.headers["Idempotency-Replayed"]) == (409, "true")


def test_a_whole_cohort_is_woken_when_it_is_sold_out(
    crowd: ThreadPoolExecutor, app: Flask, sale: Sale, stranger: Mutex
) -> None:
    """With the last item gone, a cohort neither takes turns to be told so nor queues in etcd again."""
    cohort = services.of(app).sessions.cohort()
    sale.reset(1)
    with stranger.acquire(timeout=WAIT_S):
        buyers = [crowd.submit(buy, app.test_client(), "etcd-cohort") for _ in range(8)]
        wait_until(lambda: len(cohort._waiters) == 8)
    assert sorted(buyer.result(WAIT_S) for buyer in buyers) == ["sold"] + ["sold_out"] * 7
    highest = str(sale.client.get(sale.keys.fence))
    assert int(highest.split(".")[1]) == 2  # one buys, one finds nothing left, six need no turn


def test_one_look_is_enough_for_all_that_began_before_it(sale: Sale, inventory: Inventory) -> None:
    """A purchase that began before the empty stock was seen is told so even if Redis is asked no more; later ones are
    not, nor is one with an idempotency key.
    """
    sale.reset(0)
    check, before, keyed = inventory.sold_out, Purchase("ada", "etcd"), Purchase("eve", "etcd", key="k")
    assert check.answer(before) is None, "none has looked yet"
    check.seen(time.monotonic(), 0)
    sale.client.set(sale.keys.stock, 5)
    told = check.answer(before)
    assert told is not None
    assert (told.outcome, told.stock, told.token) == (Outcome.SOLD_OUT, 0, None)
    assert check.answer(keyed) is None
    assert check.answer(Purchase("dan", "etcd")) is None


def test_one_that_asks_does_so_for_all_that_began_before(sale: Sale, inventory: Inventory) -> None:
    """Of those that come after the first look, each that asks Redis spares those the trip that had begun by then."""
    sale.reset(0)
    inventory.sold_out.seen(time.monotonic(), 0)
    before, asks = Purchase("ada", "etcd"), Purchase("eve", "etcd")
    assert inventory.sold_out.answer(asks) is not None
    assert inventory.sold_out.answer(before) is not None
    assert (asks.read_at is None, before.read_at is None) == (False, True)


@pytest.mark.parametrize("guard", [*GUARDS, ""])
def test_a_look_is_as_old_as_its_question(app: Flask, sale: Sale, guard: str) -> None:
    """A purchase that begins after Redis was asked is not told what it found: a reset may lie between."""
    sale.reset(0)
    inventory, clicks = services.of(app).shop.seller_of["etcd"].tools.stocks["1"], list[Purchase]()
    inventory.read(Purchase("bob", "g"))  # so that its sale is known
    if not guard:
        inventory.sold_out.seen(time.monotonic(), 0)
    with overtaken(0, lambda: clicks.append(Purchase("eve", "etcd"))):
        assert buy(app.test_client(), guard or "etcd") == "sold_out"
    sale.reset(5)
    (late,) = clicks
    assert inventory.sold_out.answer(late) is None


def test_a_purchase_without_a_key_is_no_retry(sale: Sale, inventory: Inventory) -> None:
    """Of several that ask Redis without an idempotency key none is told the answer of another."""
    sale.reset(0)
    inventory.sold_out.seen(time.monotonic(), 0)
    told = [inventory.sold_out.answer(Purchase(buyer, "etcd")) for buyer in ("ada", "eve")]
    assert [receipt is not None and not receipt.replayed for receipt in told] == [True, True]


@pytest.mark.parametrize("guard", [*GUARDS, ""])
def test_a_retry_leaves_the_look_of_others(app: Flask, sale: Sale, guard: str) -> None:
    """An answer that is given again says nothing about the stock: what another purchase has seen of it still counts."""
    check, before = services.of(app).shop.seller_of["etcd"].tools.stocks["1"].sold_out, Purchase("cleo", "etcd")
    browser, click = app.test_client(), f"/stock/reduce?guard={guard or 'etcd'}"
    first = browser.post(click, headers={"Idempotency-Key": "k"}).get_json()
    if not guard:
        check.seen(time.monotonic(), 0)
    again = browser.post(click, headers={"Idempotency-Key": "k"}).get_json()
    assert again["order"] == first["order"]
    assert (check.answer(before) is not None) == (not guard)


def test_who_waits_is_woken_when_it_is_sold_out(
    crowd: ThreadPoolExecutor, browser: FlaskClient, sale: Sale, stranger: Mutex
) -> None:
    """When one buyer sees it under the lock, those who wait behind him in the same instance need no turn any more."""
    sale.reset(1)
    with stranger.acquire(timeout=WAIT_S):
        first = [queue_up(crowd, browser, "etcd", behind=stranger) for _ in range(2)]
        between = crowd.submit(stranger.acquire, timeout=WAIT_S)
        wait_until(lambda: len(stranger.contenders()) == 4)
        last = [queue_up(crowd, browser, "etcd", behind=stranger) for _ in range(5)]
    with between.result(WAIT_S):  # the last five cannot have had a turn
        outcomes = [buyer.result(WAIT_S) for buyer in first + last]
    assert sorted(outcomes) == ["sold"] + ["sold_out"] * 6


def test_who_was_woken_for_nothing_queues_again(
    crowd: ThreadPoolExecutor, app: Flask, stranger: Mutex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery between the wake-up and the look is not missed: who was woken buys, in the time that he still has."""
    guard = services.of(app).shop.seller_of["etcd"]
    inventory, mutex = guard.tools.stocks["1"], guard.tools.sessions.mutex()
    acquire, timeouts, waited_s = mutex.acquire, [], 0.2

    def noted(*, timeout: float) -> Hold:
        timeouts.append(timeout)
        return acquire(timeout=timeout)

    monkeypatch.setattr(mutex, "acquire", noted)
    with stranger.acquire(timeout=WAIT_S):
        waiting = queue_up(crowd, app.test_client(), "etcd", behind=stranger)
        first = stranger.contenders()[1].key
        time.sleep(waited_s)
        inventory.sold_out.seen(0.0, 0)  # as if somebody had seen it just before the delivery
        mutex.cancel()
        wait_until(lambda: [each.key for each in stranger.contenders()[1:]] not in ([], [first]))
    assert waiting.result(WAIT_S) == "sold"
    before, after = timeouts
    assert after <= before - waited_s
