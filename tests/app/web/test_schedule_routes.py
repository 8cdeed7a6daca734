"""The scheduled opening over HTTP: accepted and refused times, the state of the sale, and the token."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from flask import Flask
from flask.testing import FlaskClient


def test_a_schedule_is_set_shown_and_cancelled(browser: FlaskClient) -> None:
    """GET /sale shows each state; only a schedule can be cancelled, and a reset opens the sale."""
    open_sale = {"state": "open", "opened_at": None, "stock": 10, "leader": None, "instance": "shop-a"}
    assert browser.get("/sale").get_json() == open_sale
    assert browser.delete("/sale/schedule").status_code == 409
    opens_at = (datetime.now(timezone.utc) + timedelta(hours=2)).astimezone(timezone(timedelta(hours=8)))
    shown = browser.post("/sale/schedule", json={"stock": 3, "opens_at": opens_at.isoformat()}).get_json()
    assert datetime.fromisoformat(shown["opens_at"].replace("Z", "+00:00")) - opens_at < timedelta(milliseconds=1)
    assert (shown["state"], shown["stock"], 7000 < shown["opens_in_s"] <= 7200) == ("scheduled", 3, True)
    cancelled = browser.delete("/sale/schedule").get_json()
    assert (cancelled["state"], "opens_at" in cancelled) == ("closed", False)
    assert browser.post("/stock/reduce").get_json()["opens_at"] is None
    assert browser.post("/stock/reset", json={"stock": 4}).get_json()["stock"] == 4
    assert browser.get("/sale").get_json()["state"] == "open"


def test_a_time_that_cannot_be_used(browser: FlaskClient) -> None:
    """It is a 400 that says what to give, and the sale stays open."""
    now = datetime.now(timezone.utc)
    later = now + timedelta(hours=1)
    past, far = now - timedelta(seconds=1), now + timedelta(days=2)
    times = ["noon", 1_800_000_000, later.replace(tzinfo=None).isoformat(), past.isoformat(), far.isoformat()]
    asked: list[dict[str, Any]] = [{}, {"opens_in_s": 5, "opens_at": later.isoformat()}, {"opens_in_s": 5, "stock": -1}]
    asked += [{"opens_in_s": value} for value in (0, 86_401, "soon")]
    asked += [{"opens_at": value} for value in (*times, "0001-01-01T00:00:00+14:00")]
    for each in asked:
        answer = browser.post("/sale/schedule", json=each)
        assert (answer.status_code, "give" in answer.get_json()["detail"].lower()) == (400, True), each
    assert browser.post("/stock/reduce").status_code == 200


def test_a_schedule_takes_the_token(make: Callable[..., Flask]) -> None:
    """As a reset does, if other machines can reach the instance."""
    browser = make(admin_token="s3cret").test_client()
    for method, path in (("POST", "/sale/schedule?opens_in_s=5"), ("DELETE", "/sale/schedule")):
        assert browser.open(path, method=method).status_code == 401
    allowed = browser.post("/sale/schedule?opens_in_s=5", headers={"Authorization": "Bearer s3cret"})
    assert allowed.status_code == 200
