"""Liveness asks no server; readiness asks etcd and Redis, and names what cannot be used."""

from __future__ import annotations

import dataclasses
import re

import pytest
from flask.testing import FlaskClient

from app import create_app, services
from app.config.settings import Settings
from loadtest.stack.ports import free_port


def test_alive_and_ready(browser: FlaskClient) -> None:
    """With everything there, both answer 200 with the instance's name."""
    assert browser.get("/livez").get_json() == {"status": "alive", "instance": "shop-a"}
    assert browser.get("/readyz").get_json() == {
        "status": "ready",
        "etcd": "ok",
        "redis": "ok",
        "sale": "ok",
        "instance": "shop-a",
    }


def test_the_name_of_an_instance_is_sent_as_it_is(settings: Settings) -> None:
    """The bare answer has the letters that were given, in UTF-8, and no escapes for them."""
    app = create_app(dataclasses.replace(settings, instance="Köln ☃"))
    assert '"instance": "Köln ☃"' in app.test_client().get("/livez").text
    services.of(app).close()


@pytest.mark.parametrize("away", ["etcd", "redis"])
def test_not_ready_names_what_is_unavailable(settings: Settings, away: str) -> None:
    """Without etcd or Redis the instance lives but is not ready, says which of them is missing, and sells nothing."""
    nowhere = f"127.0.0.1:{free_port()}"
    change = {"etcd_endpoints": nowhere} if away == "etcd" else {"redis_url": f"redis://{nowhere}/0"}
    app = create_app(dataclasses.replace(settings, **change))  # type: ignore[arg-type]
    browser = app.test_client()
    assert browser.get("/livez").status_code == 200
    ready = browser.get("/readyz")
    purchase = browser.post("/stock/reduce?guard=etcd")
    services.of(app).close()
    assert (ready.status_code, ready.mimetype) == (503, "application/problem+json")
    assert ready.get_json()["detail"] == f"Cannot be used: {away}."
    assert [name for name in ("etcd", "redis") if ready.get_json()[name] != "ok"] == [away]
    assert (purchase.status_code, purchase.get_json()["outcome"]) == (503, "unavailable")
    assert purchase.get_json()["in_doubt"] is False
    assert re.search(
        r"[^.?][.?] Nothing was written; try again when (etcd|Redis) is back\.$", purchase.get_json()["detail"]
    )


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/stock"), ("POST", "/stock/reset"), ("POST", "/stock/reduce?guard=redis-lua")]
)
def test_without_redis_every_route_says_so(settings: Settings, method: str, path: str) -> None:
    """What needs Redis answers 503 with Retry-After while Redis is unavailable."""
    app = create_app(dataclasses.replace(settings, redis_url=f"redis://127.0.0.1:{free_port()}/0"))
    answer = app.test_client().open(path, method=method)
    services.of(app).close()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.get_json()["title"] == "Unavailable"
    assert answer.get_json().get("in_doubt", False) is False


def test_without_etcd_the_queue_is_not_shown(settings: Settings) -> None:
    """GET /lock answers 503 while etcd is unavailable; an instance that never knew what was opened sells nothing."""
    app = create_app(dataclasses.replace(settings, etcd_endpoints=f"127.0.0.1:{free_port()}"))
    browser = app.test_client()
    lock, purchase = browser.get("/lock"), browser.post("/stock/reduce?guard=redis-watch")
    services.of(app).close()
    assert (lock.status_code, purchase.status_code) == (503, 503)
    assert lock.get_json()["detail"].endswith("is etcd running there? Try again in a moment.")
