"""The scheduled opening over HTTP: accepted and refused times, the state of the sale, and the token."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import pytest
from flask import Flask
from flask.testing import FlaskClient


def test_a_schedule_is_set_shown_and_cancelled(browser: FlaskClient) -> None:
    """GET /sale shows each state; only a schedule can be cancelled, and a reset opens the sale."""
    open_sale = {"state": "open", "opened_at": None, "stock": 10, "leader": None, "instance": "shop-a"}
    assert browser.get("/sale").get_json() == open_sale
    assert browser.delete("/sale/schedule").status_code == 409
    earliest = time.time() + 7200
    shown = browser.post("/sale/schedule", json={"stock": 3, "opens_in_s": 7200}).get_json()
    opens_at = datetime.fromisoformat(shown["opens_at"].replace("Z", "+00:00")).timestamp()
    assert earliest - 0.001 <= opens_at <= time.time() + 7200
    assert (shown["state"], shown["stock"], 7000 < shown["opens_in_s"] <= 7200) == ("scheduled", 3, True)
    cancelled = browser.delete("/sale/schedule").get_json()
    assert (cancelled["state"], "opens_at" in cancelled) == ("closed", False)
    assert browser.post("/stock/reduce").get_json()["opens_at"] is None
    assert browser.post("/stock/reset", json={"stock": 4}).get_json()["stock"] == 4
    assert browser.get("/sale").get_json()["state"] == "open"


@pytest.mark.parametrize("asked", [{}, {"opens_in_s": 0}, {"opens_in_s": 86_401}, {"opens_in_s": 5, "stock": -1}])
def test_a_time_that_cannot_be_used(browser: FlaskClient, asked: dict[str, int]) -> None:
    """It is a 400 that says what to give, and the sale stays open."""
    answer = browser.post("/sale/schedule", json=asked)
    assert (answer.status_code, "give" in answer.get_json()["detail"]) == (400, True)
    assert browser.post("/stock/reduce").status_code == 200


def test_a_schedule_takes_the_token(make: Callable[..., Flask]) -> None:
    """As a reset does, if other machines can reach the instance."""
    browser = make(admin_token="s3cret").test_client()
    for method, path in (("POST", "/sale/schedule?opens_in_s=5"), ("DELETE", "/sale/schedule")):
        assert browser.open(path, method=method).status_code == 401
    allowed = browser.post("/sale/schedule?opens_in_s=5", headers={"Authorization": "Bearer s3cret"})
    assert allowed.status_code == 200
