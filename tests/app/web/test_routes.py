"""The sale over HTTP: answers, parameters, idempotency, reset."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app import services
from app.config.settings import Settings
from app.guards import GUARDS
from app.sales.sale import Sale
from tests.support.shops import WAIT_S, buy, ledger, queue_behind

NAMES = [guard.name for guard in GUARDS]


@pytest.mark.parametrize("guard", NAMES)
def test_a_purchase_is_answered_in_full(browser: FlaskClient, guard: str) -> None:
    """Under every guard a purchase answers 200 with order, stock left, instance, guard, token and times.

    The think time is inside the critical section.
    """
    answer = browser.post(f"/stock/reduce?guard={guard}&buyer=ada&hold_ms=20")
    body = answer.get_json()
    assert answer.status_code == 200
    assert set(body) == {"outcome", "item", "order", "stock", "instance", "guard", "token", "waited_ms", "held_ms"}
    assert (body["outcome"], body["stock"], body["instance"], body["guard"]) == ("sold", 9, "shop-a", guard)
    assert re.fullmatch("[0-9a-f]{32}", body["order"])
    pair = guard in ("etcd-cohort", "etcd-batch")
    assert isinstance(body["token"], list if pair else int) is guard.startswith("etcd")
    assert body["held_ms"] >= 20 or (guard == "redis-lua" and body["held_ms"] > 0)  # which has no room for thought
    assert answer.headers["Cache-Control"] == "no-store"
    timing = re.fullmatch(r"wait;dur=([\d.]+), read;dur=([\d.]+), commit;dur=([\d.]+)", answer.headers["Server-Timing"])
    assert timing is not None
    waited, read, commit = map(float, timing.groups())
    assert waited == body["waited_ms"]
    assert read + commit < body["held_ms"] + 0.01  # all of them are rounded
    assert (read > 0, commit > 0) == (guard not in ("etcd-batch", "redis-lua"), True)


@pytest.mark.parametrize("guard", NAMES)
def test_sold_out_is_a_conflict(browser: FlaskClient, guard: str) -> None:
    """With nothing left, every guard answers 409 as a problem with the outcome in it, and nothing is written."""
    browser.post("/stock/reset", json={"stock": 0})
    answer = browser.post(f"/stock/reduce?guard={guard}")
    body = answer.get_json()
    assert (answer.status_code, answer.mimetype) == (409, "application/problem+json")
    assert (body["status"], body["outcome"], body["order"], body["stock"]) == (409, "sold_out", None, 0)
    assert (body["instance"], body["guard"], body["title"]) == ("shop-a", guard, "Sold out")
    assert body["type"] == "urn:stock-flash-sale:problem:sold_out"
    assert body["detail"]
    assert "Retry-After" not in answer.headers
    assert browser.get("/stock").get_json()["orders"] == 0


@pytest.mark.parametrize("guard", NAMES)
def test_a_retry_buys_once(app: Flask, browser: FlaskClient, guard: str) -> None:
    """A retry with the same Idempotency-Key gets the first order, marked as replayed; another buyer's is a 422."""
    first, again = (buy(app, guard, key="click-1", buyer="ada") for _ in range(2))
    assert (first["status"], again["status"]) == (200, 200)
    assert (first["order"], first["token"]) == (again["order"], again["token"])
    assert (first["replayed"], again["replayed"]) == (None, "true")
    refused = buy(app, guard, key="click-1", buyer="bob")
    assert (refused["status"], "new key" in refused["detail"]) == (422, True)
    assert browser.get("/stock").get_json()["orders"] == 1


@pytest.mark.parametrize("buyer", ["ä☃\U0001f6d2", '"}{', "<b>&amp;", "a\x00b", " ", "x" * 200])
def test_parameters_may_be_json(browser: FlaskClient, sale: Sale, buyer: str) -> None:
    """Some may be in the query, others in the body; whatever a buyer's name is, the ledger has exactly that."""
    for _ in range(2):
        answer = browser.post("/stock/reduce?hold_ms=1", json={"buyer": buyer}, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.get_json()["guard"]) == (200, "etcd")  # the default
    assert browser.post("/stock/reduce?buyer=bob", json={"guard": "none"}).get_json()["guard"] == "none"
    assert [entry["buyer"] for entry in ledger(sale)] == [buyer, "bob"]


def test_stock_tells_what_is_left_and_sold(browser: FlaskClient) -> None:
    """GET /stock shows counter, ledger and verdict."""
    browser.post("/stock/reduce?guard=redis-lua")
    assert browser.get("/stock").get_json() == {
        "item": "1",
        "initial": 10,
        "stock": 9,
        "lucky": 1,
        "orders": 1,
        "lost_updates": 0,
        "verdict": "EXACT",
        "instance": "shop-a",
    }


def test_a_reset_takes_a_number_or_the_default(browser: FlaskClient) -> None:
    """A reset answers with the new sale; without a number it is that of the settings."""
    assert browser.post("/stock/reset", json={"stock": 3}).get_json()["stock"] == 3
    assert browser.post("/stock/reset?stock=4").get_json()["stock"] == 4
    assert browser.post("/stock/reset").get_json()["stock"] == 10


def test_guards_are_listed_with_their_promises(browser: FlaskClient) -> None:
    """GET /guards names each guard, what it promises, and a sentence for people."""
    body = browser.get("/guards").get_json()
    assert {guard["name"]: guard["promise"] for guard in body["guards"]} == {
        "none": "none",
        "thread": "none",
        "etcd": "exact",
        "etcd-unfenced": "exact_until_paused",
        "etcd-cohort": "exact",
        "etcd-batch": "exact",
        "redis-lock": "exact_until_paused",
        "redis-watch": "exact",
        "redis-lua": "exact",
    }
    assert all(guard["description"].endswith(".") for guard in body["guards"])
    assert body["default"] == "etcd"


def test_lock_shows_holder_and_waiters_in_order(
    app: Flask, browser: FlaskClient, crowd: ThreadPoolExecutor, settings: Settings
) -> None:
    """GET /lock lists the holder of the mutex and the waiters in order, with instance, token, age and TTL left."""
    name = f"flash-sale/{settings.sale}"
    assert browser.get("/lock").get_json() == {"name": name, "holder": None, "waiters": [], "instance": "shop-a"}
    mutex = services.of(app).sessions.mutex()
    with mutex.acquire(timeout=WAIT_S) as hold:
        waiting = queue_behind(mutex, crowd, app, "etcd")
        queue = browser.get("/lock").get_json()
    assert waiting.result(WAIT_S)["status"] == 200
    holder, (waiter,) = queue["holder"], queue["waiters"]
    assert (holder["instance"], holder["token"], holder["key"]) == ("shop-a", hold.token, hold.key)
    assert waiter["token"] > holder["token"]
    assert 0 <= holder["age_s"] < 10
    assert 0 < holder["ttl_s"] <= settings.lease_ttl


BAD_QUERIES = [
    ("guard=nope", "none, thread, etcd, etcd-unfenced, etcd-cohort, etcd-batch, redis-lock, redis-watch, redis-lua"),
    ("guard=", "give one of none"),
    ("hold_ms=-1", "whole number from 0 to 60000"),
    ("hold_ms=60001", "whole number from 0 to 60000"),
    ("hold_ms=1.5", "whole number"),
    ("hold_ms=", "whole number"),
    ("hold_ms=%D9%A3", "whole number"),
    ("hold_ms=" + "9" * 5000, "whole number"),
    ("buyer=", "1 to 200 characters"),
    ("buyer=" + "x" * 201, "1 to 200 characters"),
    ("gaurd=etcd", "no parameter 'gaurd' here: use guard, item, hold_ms, buyer"),
    ("ä" * 1000, "no parameter "),
]
TWICE = "is given more than once: give one value, in the query or in the body"
BAD_REQUESTS = [
    *((f"/stock/reduce?{query}", "", advice) for query, advice in BAD_QUERIES),
    # Which of two values is meant?
    ("/stock/reduce?guard=none&guard=etcd", "", TWICE),
    ("/cart?items=1&items=1", "", TWICE),
    ("/cart?items=1", '{"items": [1]}', TWICE),
    ("/stock/reduce", '{"guard": "none", "guard": "etcd"}', TWICE),
    ("/stock/reset?stock=1", '{"stock": 1}', TWICE),
    # Values of the wrong type, or beyond the bounds.
    *(("/stock/reset", f'{{"stock": {value}}}', "give a whole number from 0 to 1000000") for value in
      ('"abc"', "-1", "1.5", "true", "null", "NaN", "1e9", "1000001")),
    *(("/stock/reduce", f'{{"{member}": {value}}}', f"{member} is ") for member in ("buyer", "guard", "hold_ms")
      for value in ("true", "1.5", "null", "[]", "{}")),
    ("/stock/reduce", '{"buyer": "\\ud800"}', "half a character"),
    ("/stock/reset", '{"stok": 3}', "no parameter 'stok' here: use stock"),
    # What is not a JSON object.
    *(("/stock/reset", body, "send an object such as") for body in
      ("{", "not json", "\xff", "[" * 5000, '{"stock": ' + "9" * 5000 + "}")),
    *(("/stock/reset", body, "not a JSON object: send one such as") for body in ("[300]", "300")),
]  # fmt: skip


def test_a_bad_request_says_what_to_give_and_changes_nothing(browser: FlaskClient) -> None:
    """A parameter that cannot be used is a 400 with advice, however long the parameter is; the sale stays as it was."""
    browser.post("/stock/reduce?guard=none")
    for address, body, advice in BAD_REQUESTS:
        answer = browser.post(address, data=body.encode("latin-1"), content_type="application/json")
        assert (answer.status_code, answer.mimetype) == (400, "application/problem+json"), (address, body)
        assert advice in answer.get_json()["detail"]
        assert len(answer.get_json()["detail"]) < 200
    assert browser.get("/stock").get_json()["orders"] == 1


def test_a_bad_idempotency_key_is_a_bad_request(app: Flask) -> None:
    """An empty or endless Idempotency-Key is a 400 that names the header."""
    for answer in (buy(app, key=""), buy(app, key="x" * 201)):
        assert (answer["status"], "Idempotency-Key" in answer["detail"]) == (400, True)


CURL_JSON = "curl -H 'Content-Type: application/json' -d '{\"stock\": 3}' 'http://localhost/stock/reset'"
PLAIN = "Send the body as JSON, with the header 'Content-Type: application/json'."


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ("stock=3", "curl -X POST 'http://localhost/stock/reset?stock=3'"),
        ('{"stock": 3}', CURL_JSON),
        *((body, PLAIN) for body in ("{'; reboot'}", "stock='; reboot'", "ä=1", "x" * 201)),
    ],
)
def test_a_form_is_answered_with_the_line_to_type(browser: FlaskClient, body: str, advice: str) -> None:
    """``curl -d`` gets a 415 with a command that does what was meant, unless it could end a shell's quotation marks."""
    answer = browser.post("/stock/reset", data=body.encode(), content_type="application/x-www-form-urlencoded")
    detail = answer.get_json()["detail"]
    assert answer.status_code == 415
    assert detail == PLAIN if advice is PLAIN else detail.endswith(f": {advice}")
    if "reset?" in advice:
        assert browser.post(advice.split("'")[1]).get_json()["stock"] == 3
