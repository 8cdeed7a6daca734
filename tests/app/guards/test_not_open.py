"""Before a scheduled opening every guard refuses, sells nothing, and sells exactly the stock afterwards."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask

from app import services
from app.guards import GUARDS, Promise
from app.sales.schedule import Schedule
from lock import Mutex
from tests.support.shops import WAIT_S, buy, in_ms

EXACT = [guard.name for guard in GUARDS if guard.promise is not Promise.NONE]


@pytest.fixture
def schedule(app: Flask) -> Schedule:
    return services.of(app).scheduling.schedule


@pytest.mark.parametrize("guard", [*(guard.name for guard in GUARDS), "cart"])
def test_a_purchase_before_the_opening(app: Flask, schedule: Schedule, guard: str) -> None:
    """It is a 409 with the time of the opening and Retry-After; the same Idempotency-Key buys once it is open."""
    browser = app.test_client()
    schedule.set(2, in_ms(50_000))
    for _ in range(2):
        answer = buy(app, guard, key="early")
        assert (answer["status"], answer["outcome"], answer["order"]) == (409, "not_open", None)
        assert answer["opens_at"].endswith("Z")
        assert answer["opens_at"] in answer["detail"]
        assert 20 <= int(answer["retry_after"]) <= 50
    assert [browser.get("/stock").get_json()[name] for name in ("stock", "orders")] == [2, 0]
    assert browser.get("/readyz").status_code == 200
    schedule.set(2, 1000)
    schedule.open(1)
    assert buy(app, guard, key="early")["outcome"] == "sold"


@pytest.mark.parametrize("guard", EXACT)
def test_the_opening_in_a_crowd(
    app: Flask, other: Flask, schedule: Schedule, guard: str, crowd: ThreadPoolExecutor
) -> None:
    """Buyers who click on and on at two instances buy exactly the stock, all of it after the opening."""
    schedule.set(7, in_ms(300))

    def keep_clicking(number: int) -> str:
        outcome = "not_open"
        while outcome == "not_open":
            outcome = buy((app, other)[number % 2], guard, buyer=number)["outcome"]
        return outcome

    clicking = [crowd.submit(keep_clicking, number) for number in range(12)]
    while services.of(other).scheduling.schedule.open(1)[0] == "early":
        time.sleep(0.01)
    assert Counter(each.result(WAIT_S) for each in clicking) == {"sold": 7, "sold_out": 5}


def test_no_buyer_waits_for_a_lock_to_hear_of_the_schedule(app: Flask, schedule: Schedule, stranger: Mutex) -> None:
    """While another program has the mutex, an instance that knows the schedule answers."""
    schedule.set(2, in_ms(50_000))
    with stranger.acquire(timeout=WAIT_S):
        assert buy(app)["outcome"] == "not_open"
