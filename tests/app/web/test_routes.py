"""The sale over HTTP: answers, parameters, idempotency, reset, probes and errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app import services
from app.config.settings import Settings
from app.guards import guards
from app.sales.sale import Sale
from loadtest.ports import free_port
from tests.support.shops import WAIT_S, buy, ledger, queue_behind, refused

Make = Callable[..., Flask]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"items": 3})


@pytest.mark.parametrize("buyer", ['ä☃\U0001f6d2"}{<b>&amp;a\x00b'.ljust(200, "x"), " "])
def test_parameters_may_be_json(browser: FlaskClient, sale: Sale, buyer: str) -> None:
    """Some may be in the query, others in the body; whatever a buyer's name is, the ledger has exactly that."""
    for _ in range(2):
        answer = browser.post("/stock/reduce?hold_ms=1", json={"buyer": buyer}, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.get_json()["guard"]) == (200, "etcd")  # the default
    assert browser.post("/stock/reduce?buyer=bob", json={"guard": "none"}).get_json()["guard"] == "none"
    assert [entry["buyer"] for entry in ledger(sale)] == [buyer, "bob"]


def test_stock_tells_what_is_left_and_sold(browser: FlaskClient) -> None:
    """GET /stock shows counter, ledger and verdict; a reset answers the same, to 3, 3.0, or as the settings say."""
    browser.post("/stock/reduce?guard=redis-lua")
    told = {"item": "1", "initial": 10, "stock": 9, "lucky": 1, "orders": 1, "lost_updates": 0}
    told |= {"verdict": "EXACT", "kind": "exact", "exact": True}
    assert browser.get("/stock").get_json() == {**told, "instance": "shop-a"}
    stocks = [browser.post("/stock/reset", json={"stock": stock}).get_json()["stock"] for stock in (3, 3.0)]
    stocks += [browser.post(f"/stock/reset{query}").get_json()["stock"] for query in ("?stock=4", "")]
    assert stocks == [3, 3, 4, 10]


def test_lock_shows_holder_and_waiters_in_order(
    app: Flask, browser: FlaskClient, crowd: ThreadPoolExecutor, settings: Settings
) -> None:
    """GET /lock lists holder and waiters of an item's mutex in order, with instance, token, age and TTL left."""
    name = f"flash-sale/{settings.sale}:2"
    mutex = services.of(app).sessions.mutex("2")
    with mutex.acquire(timeout=WAIT_S) as hold:
        waiting = queue_behind(mutex, crowd, app, "etcd", item=2)
        queue, free = (browser.get(f"/lock?item={item}").get_json() for item in (2, 1))
    assert waiting.result(WAIT_S)["status"] == 200
    assert (queue["name"], free["name"], free["holder"], free["waiters"]) == (name, name[:-2], None, [])
    holder, (waiter,) = queue["holder"], queue["waiters"]
    assert (holder["instance"], holder["token"], holder["key"]) == ("shop-a", hold.token, hold.key)
    assert waiter["token"] > holder["token"]
    assert 0 <= holder["age_s"] < 10
    assert 0 < holder["ttl_s"] <= settings.lease_ttl


BAD_QUERIES = [
    ("guard=nope", ", ".join(guards())),
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
NO_ITEM = "whole number from 1 to 3, as set by FLASHSALE_ITEMS."
TWICE = "Give each parameter once"
BAD_REQUESTS = [
    *((f"/stock/reduce?{query}", "", advice) for query, advice in BAD_QUERIES),
    *((f"/stock/reduce?item={item}", "", NO_ITEM) for item in ("0", "4", "-1", "x", "", "1,2", "1.0")),
    # Which of two values is meant?
    ("/stock/reduce?guard=none&guard=etcd", "", TWICE),
    ("/stock/reset?stock=1", '{"stock": 1}', TWICE),
    # Values of the wrong type, or beyond the bounds.
    *(("/stock/reset", f'{{"stock": {value}}}', "give a whole number from 0 to 1000000") for value in
      ('"abc"', "-1", "1.5", "true", "null", "NaN", "1e9", "1000001")),
    *(("/stock/reduce", f'{{"{member}": {value}}}', f"{member} is ") for member in ("buyer", "guard", "hold_ms")
      for value in ("true", "1.5", "null", "[]", "{}")),
    ("/stock/reduce", '{"buyer": "\\ud800"}', "1 to 200 characters"),
    ("/stock/reset", '{"stok": 3}', "no parameter 'stok' here: use stock"),
    # What is not a JSON object.
    *(("/stock/reset", body, "not a JSON object: send one such as") for body in
      ("{", "not json", "\xff", "[" * 5000, '{"stock": ' + "9" * 5000 + "}", "[300]", "300")),
]  # fmt: skip


def test_a_bad_request_says_what_to_give_and_changes_nothing(app: Flask, browser: FlaskClient) -> None:
    """A parameter or key that cannot be used is a 400 with short advice; the sale stays as it was."""
    browser.post("/stock/reduce?guard=none")
    for address, body, advice in BAD_REQUESTS:
        answer = browser.post(address, data=body.encode("latin-1"), content_type="application/json")
        assert (answer.status_code, answer.mimetype) == (400, "application/problem+json"), (address, body)
        assert advice in answer.get_json()["detail"]
        assert len(answer.get_json()["detail"]) < 200
    for path in ("/stock?item=4", "/lock?item=0"):
        assert NO_ITEM in browser.get(path).get_json()["detail"]
    for told in (buy(app, key=""), buy(app, key="x" * 201)):
        assert told["status"] == 400
        assert "Idempotency-Key" in told["detail"]
    assert browser.get("/stock").get_json()["orders"] == 1


@pytest.mark.parametrize(("form", "query"), [("stock=3", "stock=3"), ("stock='; reboot'", "NAME=VALUE")])
def test_a_form_is_answered_with_the_line_to_type(browser: FlaskClient, form: str, query: str) -> None:
    """``curl -d`` sends a form: it is a 415 with the command that was meant, unless that could end its quotation."""
    answer = browser.post("/stock/reset", data=form, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 415
    assert answer.get_json()["detail"].endswith(f": curl -X POST 'http://localhost/stock/reset?{query}'")
    assert browser.get("/stock").get_json()["stock"] == 10


def test_alive_and_ready(make: Make) -> None:
    """With everything there, both answer 200 with the instance's name, whose letters are sent as they are."""
    name = "Köln ☃"
    browser = make(instance=name).test_client()
    alive = browser.get("/livez").get_json()
    assert datetime.fromisoformat(alive.pop("started")) <= datetime.now(timezone.utc)
    assert alive == {"status": "alive", "instance": name}
    assert f'"instance": "{name}"' in browser.get("/livez").text
    ready = {"status": "ready", "etcd": "ok", "redis": "ok", "sale": "ok", "instance": name}
    assert browser.get("/readyz").get_json() == ready


def test_not_ready_names_what_is_unavailable(make: Make) -> None:
    """Without etcd the instance lives, is not ready, names what is missing, and sells nothing."""
    app = make(etcd_endpoints=f"127.0.0.1:{free_port()}")
    browser = app.test_client()
    assert browser.get("/livez").status_code == 200
    ready = browser.get("/readyz")
    assert (ready.status_code, ready.mimetype) == (503, "application/problem+json")
    assert (ready.get_json()["detail"], ready.get_json()["redis"]) == ("Cannot be used: etcd.", "ok")
    for guard in ("etcd", "redis-watch", "redis-lua"):
        bought = buy(app, guard)
        assert re.search(r"[^.?][.?] Nothing was written; try again when etcd is back\.$", refused(bought))
        assert bought["title"] == "Unavailable"
    lock = browser.get("/lock")
    assert lock.status_code == 503
    assert lock.get_json()["detail"].endswith("is etcd running there? Try again in a moment.")


@pytest.mark.parametrize(
    ("status", "requests"),
    [
        (404, ["GET /", "GET /stock/", "POST /nothing/here"]),
        (405, ["GET /stock/reduce", "DELETE /stock", "OPTIONS /stock", "PUT /livez"]),
    ],
)
def test_unknown_routes_and_methods_are_problems(browser: FlaskClient, status: int, requests: list[str]) -> None:
    """A wrong address or method is answered as a problem that says what there is instead."""
    for request in requests:
        method, path = request.split()
        answer = browser.open(path, method=method)
        body = answer.get_json()
        assert (answer.status_code, answer.mimetype) == (status, "application/problem+json"), request
        assert (body["status"], body["type"], body["instance"]) == (status, "about:blank", "shop-a")
        hints = ["/stock/reduce"] if status == 404 else answer.headers["Allow"].split(", ")
        assert all(hint in body["detail"] for hint in hints)


def test_a_defect_is_a_problem_too(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception is a 500 without details, and is logged with its traceback."""

    def fail() -> str:
        raise RuntimeError("secret of the house")

    app.add_url_rule("/fail", view_func=fail)
    answer = app.test_client().get("/fail")
    assert (answer.status_code, answer.mimetype) == (500, "application/problem+json")
    assert answer.get_json()["instance"] == "shop-a"
    assert "defect of the shop" in answer.get_json()["detail"]
    assert "secret" not in answer.text
    assert "secret of the house" in caplog.text
