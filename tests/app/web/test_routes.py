"""The sale over HTTP: answers, parameters, idempotency, reset."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app import services
from app.config.settings import Settings
from app.guards import GUARDS
from app.sales.sale import Sale
from tests.support.waiting import wait_until

NAMES = [guard.name for guard in GUARDS]


@pytest.mark.parametrize("guard", NAMES)
def test_a_purchase_is_answered_in_full(browser: FlaskClient, guard: str) -> None:
    """Under every guard a purchase answers 200 with order, stock left, instance, guard, token and times."""
    answer = browser.post(f"/stock/reduce?guard={guard}&buyer=ada")
    body = answer.get_json()
    assert answer.status_code == 200
    assert set(body) == {"outcome", "item", "order", "stock", "instance", "guard", "token", "waited_ms", "held_ms"}
    assert (body["outcome"], body["stock"], body["instance"], body["guard"]) == ("sold", 9, "shop-a", guard)
    assert re.fullmatch("[0-9a-f]{32}", body["order"])
    pair = guard in ("etcd-cohort", "etcd-batch")
    assert isinstance(body["token"], list if pair else int) is guard.startswith("etcd")
    assert body["held_ms"] > 0
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
def test_a_retry_buys_once(browser: FlaskClient, guard: str) -> None:
    """A second request with the same Idempotency-Key gets the first order, marked as replayed, and sells nothing."""
    headers = {"Idempotency-Key": "click-1"}
    first = browser.post(f"/stock/reduce?guard={guard}&buyer=ada", headers=headers)
    again = browser.post(f"/stock/reduce?guard={guard}&buyer=ada", headers=headers)
    assert again.status_code == 200
    assert again.get_json()["order"] == first.get_json()["order"]
    assert again.get_json()["token"] == first.get_json()["token"]
    assert ("Idempotency-Replayed" in first.headers, again.headers["Idempotency-Replayed"]) == (False, "true")
    assert browser.get("/stock").get_json()["orders"] == 1


def test_a_key_of_another_buyer_is_refused(browser: FlaskClient) -> None:
    """The same Idempotency-Key from another buyer is a 422 that says to use a new key."""
    headers = {"Idempotency-Key": "click-1"}
    browser.post("/stock/reduce?guard=none&buyer=ada", headers=headers)
    answer = browser.post("/stock/reduce?guard=none&buyer=bob", headers=headers)
    assert answer.status_code == 422
    assert "new key" in answer.get_json()["detail"]


def test_think_time_is_inside_the_critical_section(browser: FlaskClient) -> None:
    """hold_ms is spent while the lock is held, not before."""
    body = browser.post("/stock/reduce?guard=thread&hold_ms=50").get_json()
    assert body["held_ms"] >= 50 > body["waited_ms"]


def test_parameters_may_be_json(browser: FlaskClient, sale: Sale) -> None:
    """Guard, think time and buyer are taken from a JSON body, too, or some from there and some from the query."""
    answer = browser.post("/stock/reduce?buyer=bob", json={"guard": "none", "hold_ms": 1})
    assert answer.get_json()["guard"] == "none"
    assert json.loads(str(sale.client.lindex(sale.keys.orders, 0)))["buyer"] == "bob"


@pytest.mark.parametrize("buyer", ["ä☃\U0001f6d2", '"}{', "<b>&amp;", "a\x00b", " ", "x" * 200])
def test_any_buyer_is_stored_as_is(browser: FlaskClient, sale: Sale, buyer: str) -> None:
    """Whatever text a buyer's name is, the ledger and a later replay know it by exactly that."""
    for _ in range(2):
        answer = browser.post("/stock/reduce", json={"guard": "etcd", "buyer": buyer}, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 200
    (entry,) = sale.client.lrange(sale.keys.orders, 0, -1)
    assert json.loads(entry)["buyer"] == buyer


def test_the_default_is_the_etcd_guard(browser: FlaskClient) -> None:
    """A purchase without any parameter is made under the etcd mutex."""
    assert browser.post("/stock/reduce").get_json()["guard"] == "etcd"


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


def test_lock_shows_holder_and_waiters_in_order(app: Flask, browser: FlaskClient, settings: Settings) -> None:
    """GET /lock lists the holder of the mutex and the waiters in order, with instance, token, age and TTL left."""
    empty: dict[str, object] = {
        "name": f"flash-sale/{settings.sale}",
        "holder": None,
        "waiters": [],
        "instance": "shop-a",
    }
    assert browser.get("/lock").get_json() == empty
    mutex = services.of(app).sessions.mutex()
    with ThreadPoolExecutor(1) as thread:
        with mutex.acquire(timeout=5) as hold:
            waiting = thread.submit(app.test_client().post, "/stock/reduce")
            wait_until(lambda: len(mutex.contenders()) == 2)
            queue = browser.get("/lock").get_json()
        assert waiting.result(20).status_code == 200
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


@pytest.mark.parametrize(("address", "body", "advice"), BAD_REQUESTS)
def test_a_bad_request_says_what_to_give_and_changes_nothing(
    browser: FlaskClient, address: str, body: str, advice: str
) -> None:
    """A parameter that cannot be used is a 400 with advice, however long the parameter is; the sale stays as it was."""
    browser.post("/stock/reduce?guard=none")
    answer = browser.post(address, data=body.encode("latin-1"), content_type="application/json")
    assert (answer.status_code, answer.mimetype) == (400, "application/problem+json")
    assert advice in answer.get_json()["detail"]
    assert len(answer.get_json()["detail"]) < 200
    assert browser.get("/stock").get_json()["orders"] == 1


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_bad_idempotency_key_is_a_bad_request(browser: FlaskClient, key: str) -> None:
    """An empty or endless Idempotency-Key is a 400 that names the header."""
    answer = browser.post("/stock/reduce", headers={"Idempotency-Key": key})
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.get_json()["detail"]


def test_a_form_is_answered_with_the_line_to_type(browser: FlaskClient) -> None:
    """``curl -d stock=3`` gets a 415 with a command that does what was meant."""
    answer = browser.post("/stock/reset", data={"stock": "3"})
    assert answer.status_code == 415
    command = answer.get_json()["detail"].partition(": curl -X POST ")[2]
    assert command == "'http://localhost/stock/reset?stock=3'"
    assert browser.post(command.strip("'")).get_json()["stock"] == 3


def test_json_sent_as_a_form_is_answered_with_the_line_to_type(browser: FlaskClient) -> None:
    """``curl -d '{"stock": 3}'`` lacks a header: the 415 has the command with it."""
    answer = browser.post("/stock/reset", data='{"stock": 3}', content_type="application/x-www-form-urlencoded")
    command = "curl -H 'Content-Type: application/json' -d '{\"stock\": 3}' 'http://localhost/stock/reset'"
    assert (answer.status_code, answer.get_json()["detail"].partition(": curl")[2]) == (415, command[4:])


@pytest.mark.parametrize("body", ["{'; reboot'}", "stock='; reboot'", "ä=1", "x" * 201])
def test_another_body_is_told_to_be_json(browser: FlaskClient, body: str) -> None:
    """What is no form, or could end a shell's quotation marks, is not repeated."""
    answer = browser.post("/stock/reset", data=body.encode(), content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 415
    assert answer.get_json()["detail"] == "Send the body as JSON, with the header 'Content-Type: application/json'."
