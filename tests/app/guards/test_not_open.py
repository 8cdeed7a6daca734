"""Before a scheduled opening every guard says so, sells nothing, and sells exactly the stock afterwards."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app import services
from app.guards import GUARDS, Promise
from app.sales.schedule import Schedule
from lock import Mutex

EXACT = [guard.name for guard in GUARDS if guard.promise is not Promise.NONE]
PATHS = [f"/stock/reduce?guard={guard.name}" for guard in GUARDS] + ["/cart?items=1"]


def schedule_of(app: Flask) -> Schedule:
    """The schedule of the app's sale."""
    return services.of(app).scheduling.schedule


@pytest.mark.parametrize("path", PATHS)
def test_a_purchase_before_the_opening(browser: FlaskClient, app: Flask, path: str) -> None:
    """It is a 409 with the time of the opening and Retry-After; the same Idempotency-Key buys once it is open."""
    headers = {"Idempotency-Key": "early"}
    schedule_of(app).set(2, (time.time_ns() // 1_000_000) + 20_000)
    for _ in range(2):
        answer = browser.post(path, headers=headers)
        body = answer.get_json()
        assert (answer.status_code, body["outcome"], body["order"]) == (409, "not_open", None)
        assert body["opens_at"].endswith("Z")
        assert body["opens_at"] in body["detail"]
        assert 15 <= int(answer.headers["Retry-After"]) <= 20
    assert browser.get("/stock").get_json()["orders"] == 0
    assert browser.get("/readyz").status_code == 200
    schedule_of(app).set(2, 1000)
    schedule_of(app).open(1)
    assert browser.post(path, headers=headers).get_json()["outcome"] == "sold"


@pytest.mark.parametrize("guard", EXACT)
def test_the_opening_in_a_crowd(app: Flask, other: Flask, guard: str, crowd: ThreadPoolExecutor) -> None:
    """Buyers who click on and on at two instances buy exactly the stock, all of it after the opening."""
    schedule_of(app).set(7, time.time_ns() // 1_000_000 + 300)

    def keep_clicking(number: int) -> list[str]:
        browser, outcomes = (app, other)[number % 2].test_client(), ["not_open"]
        while outcomes[-1] == "not_open":
            answer = browser.post(f"/stock/reduce?guard={guard}&buyer={number}")
            outcomes.append(answer.get_json()["outcome"])
        return outcomes

    clicking = [crowd.submit(keep_clicking, number) for number in range(12)]
    while schedule_of(other).open(1)[0] == "early":
        time.sleep(0.01)
    last = Counter(each.result(20)[-1] for each in clicking)
    if guard == "thread":  # two instances, and each has its own lock
        assert last["sold"] >= 7
    else:
        assert last == {"sold": 7, "sold_out": 5}


def test_no_buyer_waits_for_a_lock_to_be_told(app: Flask, browser: FlaskClient, stranger: Mutex) -> None:
    """While another program has the mutex, an instance that knows of the schedule answers at once."""
    schedule_of(app).set(2, time.time_ns() // 1_000_000 + 20_000)
    with stranger.acquire(timeout=20):
        answer = browser.post("/stock/reduce?guard=etcd").get_json()
    assert (answer["outcome"], answer["waited_ms"] < 1000) == ("not_open", True)
