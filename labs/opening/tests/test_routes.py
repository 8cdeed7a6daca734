"""The schedule over HTTP and in Redis: set, shown and opened once, and every way to buy before and after."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from unittest.mock import patch

import pytest
from flask import Flask
from flask.testing import FlaskClient
from pydantic import SecretStr

from app import services
from app.sales.purchase import Purchase
from app.sales.sale import Sale
from app.sales.stock import Stock
from labs.opening.schedule import Closed, NotScheduled, OpeningSchedule
from lock import Mutex
from tests.support.overtaking import overtaken
from tests.support.shop_fixtures import Process
from tests.support.shops import WAIT_S, WAYS, buy, in_ms, section_of
from tests.support.waiting import wait_until


def test_a_schedule_is_set_shown_and_cancelled(browser: FlaskClient) -> None:
    """GET /sale shows each state; only a schedule can be cancelled, and a reset opens the sale."""
    open_sale = {"state": "open", "opened_at": None, "stock": 10, "leader": None, "instance": "shop-a"}
    assert browser.get("/sale").get_json() == open_sale
    assert browser.delete("/sale/schedule").status_code == 409
    opens_at = (datetime.now(timezone.utc) + timedelta(hours=2)).astimezone(timezone(timedelta(hours=8)))
    shown = browser.post("/sale/schedule", json={"stock": 3, "opens_at": opens_at.isoformat()}).get_json()
    assert datetime.fromisoformat(shown["opens_at"].replace("Z", "+00:00")) - opens_at < timedelta(milliseconds=1)
    assert shown["state"] == "scheduled"
    assert shown["stock"] == 3
    assert 7000 < shown["opens_in_s"] <= 7200
    cancelled = browser.delete("/sale/schedule").get_json()
    assert cancelled["state"] == "closed"
    assert "opens_at" not in cancelled
    assert browser.delete("/sale/schedule").status_code == 409
    assert browser.post("/stock/reduce").get_json()["opens_at"] is None
    assert browser.post("/stock/reset", json={"stock": 4}).get_json()["stock"] == 4
    assert browser.get("/sale").get_json()["state"] == "open"


BAD_TIMES = '"noon"', "1800000000", '"SOON"', '"2020-01-01T00:00:00Z"', '"2999-01-01T00:00:00Z"'
BAD = [
    *((body, "opens_") for body in ("{}", '{"opens_in_s": 0}', '{"opens_in_s": 86401}')),
    ('{"opens_in_s": 5, "opens_at": "SOONZ"}', "Give either"),
    *((f'{{"opens_at": {at}}}', "opens_at is ") for at in BAD_TIMES),
]


def test_a_time_that_cannot_be_is_refused(browser: FlaskClient) -> None:
    """A time in the past, too far, without a zone, or none is a 400 with advice; the sale stays open."""
    soon = (datetime.now(timezone.utc) + timedelta(hours=1)).replace(tzinfo=None).isoformat()
    for body, advice in BAD:
        answer = browser.post("/sale/schedule", data=body.replace("SOON", soon), content_type="application/json")
        assert answer.status_code == 400
        assert advice in answer.get_json()["detail"]
    assert browser.get("/sale").get_json()["state"] == "open"


def test_a_schedule_needs_the_token(make: Callable[..., Flask]) -> None:
    """Without the administrator's token it is a 401, and with it the sale closes."""
    shop, allowed = make(admin_token=SecretStr("secret")).test_client(), {"Authorization": "Bearer secret"}
    for method, state in (("POST", "scheduled"), ("DELETE", "closed")):
        query = {"opens_in_s": 60} if method == "POST" else None
        assert shop.open("/sale/schedule", method=method, query_string=query).status_code == 401
        assert shop.open("/sale/schedule", method=method, query_string=query, headers=allowed).status_code == 200
        assert shop.get("/sale").get_json()["state"] == state


@pytest.fixture
def schedule(app: Flask) -> OpeningSchedule:
    """The lab's own, of the first instance."""
    schedule: OpeningSchedule = app.extensions["schedule"]
    return schedule


def open_now(schedule: OpeningSchedule, fence: int) -> tuple[str, str]:
    """What a leader with this token gets, where the sale is closed."""
    closed = schedule.read()
    assert closed is not None
    return schedule.open(closed, fence)


@pytest.mark.parametrize("guard", WAYS)
def test_a_purchase_before_the_opening(app: Flask, schedule: OpeningSchedule, stranger: Mutex, guard: str) -> None:
    """It is a 409 with the time, no wait for a lock and Retry-After; the same Idempotency-Key buys once it is open."""
    browser = app.test_client()
    schedule.set(2, in_ms(50_000))
    with stranger.acquire(timeout=WAIT_S):
        answers = [buy(app, guard, key="early") for _ in range(2)]
    for answer in answers:
        assert (answer["status"], answer["outcome"], answer["order"]) == (409, "not_open", None)
        assert answer["opens_at"].endswith("Z")
        assert answer["opens_at"] in answer["detail"]
        assert 20 <= int(answer["retry_after"]) <= 50
    assert [browser.get("/stock").get_json()[name] for name in ("stock", "orders")] == [0, 0]
    assert browser.get("/readyz").status_code == 200
    status, left_ms = open_now(schedule, 1)
    assert status == "early"
    assert 20_000 < int(left_ms) <= 50_000
    schedule.set(2, 1000)
    assert open_now(schedule, 2)[0] == "opened"
    assert buy(app, guard, key="early")["outcome"] == "sold"


@pytest.mark.parametrize("guard", WAYS)
def test_a_process_that_was_not_told_of_the_closing(
    app: Flask, other: Flask, schedule: OpeningSchedule, guard: str
) -> None:
    """Its first purchases find no stock and are told the time as well, also with a key; none is told "sold out"."""
    assert buy(other, guard)["outcome"] == "sold"
    schedule.set(2, in_ms(50_000))
    answers = [buy(other, guard, key=key, buyer="ada") for key in ("k", None, "k", None)]
    assert {(answer["status"], answer["outcome"], answer["replayed"]) for answer in answers} == {
        (409, "not_open", None)
    }
    schedule.set(1, 1000)
    assert open_now(schedule, 2)[0] == "opened"
    told = [buy(other, guard, key=key, buyer="ada")["outcome"] for key in ("k", None)]
    assert told == ["sold", "sold_out"]


def test_a_click_on_an_open_sale_costs_nothing(app: Flask, schedule: OpeningSchedule) -> None:
    """Redis is asked once for each generation whether it is closed, and not for each click."""
    assert buy(app)["outcome"] == "sold"
    buy(app)
    with patch.object(schedule.sale.client, "hmget", side_effect=AssertionError), overtaken(2, pytest.fail):
        assert buy(app, "redis-lua")["outcome"] == "sold"  # one command to Redis, perhaps one more for its connection


@pytest.mark.parametrize("wrong_by_s", [-3600, 3600])
def test_an_instance_whose_clock_is_wrong_tells_and_opens_by_redis(
    app: Flask, monkeypatch: pytest.MonkeyPatch, wrong_by_s: int
) -> None:
    """Until when a buyer has to wait, what is shown, and when the leader opens the sale: Redis's clock decides."""
    browser, true_time, true_ns = app.test_client(), time.time, time.time_ns

    def wrong_time() -> float:  # for all but gRPC, which counts its deadlines by this clock
        return true_time() + (0 if "grpc" in sys._getframe(1).f_code.co_filename else wrong_by_s)

    monkeypatch.setattr(time, "time", wrong_time)
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + wrong_by_s * 10**9)
    shown = browser.post("/sale/schedule", json={"stock": 2, "opens_in_s": 50}).get_json()
    assert 40 < shown["opens_in_s"] <= 50
    early = buy(app)
    assert early["outcome"] == "not_open"
    assert 40 <= int(early["retry_after"]) <= 50
    assert abs(datetime.fromisoformat(shown["opens_at"].replace("Z", "+00:00")).timestamp() - true_time() - 50) < 10
    browser.post("/sale/schedule", json={"stock": 2, "opens_in_s": 1})
    services.of(app).warm_up()
    wait_until(lambda: browser.get("/sale").get_json()["state"] == "open")
    assert buy(app)["outcome"] == "sold"


# A closed sale is opened once, not before its time, and never by a leader that comes late.


@pytest.fixture
def process(process: Process) -> Process:
    """Makes the sale of two items as one more process sees it."""
    return partial(process, items=2)


def schedule_of(sale: Sale) -> OpeningSchedule:
    return OpeningSchedule(sale, "demo")


def buys(sale: Sale, item: str = "1") -> str:
    """The outcome of one purchase, with the generation if it was sold."""
    receipt = Stock(sale, item=item).sell(section_of(Purchase("ada", "g", item=item)))
    return f"sold {sale.generation}" if receipt.order else receipt.outcome.value


def closed(sale: Sale, in_s: int = -1) -> Closed:
    """The sale, closed until then with a stock of 3."""
    schedule_of(sale).set(3, in_ms(1000 * in_s))
    closed = schedule_of(sale).read()
    assert closed is not None
    return closed


@pytest.mark.parametrize(
    ("found", "token", "in_s", "answer"),
    [
        ("closed", 5, -1, "opened"),
        ("closed", 5, 60, "early"),
        ("closed", 3, -1, "fenced"),
        ("open", 5, -1, "over"),
        ("open", 3, -1, "fenced"),
        ("open", 0, -1, "opened"),  # without a token: what was sold is for sale once more
        ("cancelled", 5, -1, "over"),
        ("scheduled again", 5, -1, "over"),
        ("reset", 5, -1, "over"),
        ("nothing", 5, -1, "over"),
    ],
)
def test_what_opens_a_sale(process: Process, found: str, token: int, in_s: int, answer: str) -> None:
    """Under a token only a closed sale whose time has come opens, for the highest; no other answer changes anything."""
    sale, k = process(), process().keys
    schedule, plan = schedule_of(sale), closed(sale, in_s)
    sale.client.hset(f"{k.prefix}opener", mapping={"closed": plan.generation, "token": f"{4:020d}"})
    if found == "scheduled again":
        closed(sale)
    elif found == "cancelled":
        schedule.cancel()
    elif found == "reset":
        sale.reset(3)
    elif found == "nothing":
        sale.client.delete(k.generation, k.stock)
    elif found == "open":
        assert schedule.open(plan, 4)[0] == "opened"
        assert buys(sale).startswith("sold")
    before = sale.client.mget(k.initial, k.stock, k.generation)
    status, _ = schedule.open(plan, token or None)
    assert status == answer
    stock, generation = sale.client.mget(k.stock, k.generation)
    if answer == "opened":
        assert stock == "3"
        assert found == "open" or int(generation or 0) > int(plan.generation)
    else:
        assert sale.client.mget(k.initial, k.stock, k.generation) == before
    assert sale.client.hget(f"{k.prefix}opener", "token") == f"{max(token, 4):020d}"


def test_a_schedule_that_is_overtaken_closes_nothing(process: Process) -> None:
    """If a reset comes between its two steps the reset counts, and the administrator is told."""
    sale, other = process(), process()
    with overtaken(b"opening", lambda: other.reset(2)), pytest.raises(NotScheduled, match="at the same moment"):
        schedule_of(sale).set(3, in_ms(-1))
    assert schedule_of(sale).read() is None
    assert buys(sale).startswith("sold")
