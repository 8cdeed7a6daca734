"""Probes and errors: what is unavailable is named, and every error is a problem document."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskClient

from loadtest.stack.ports import free_port
from tests.support.shops import buy

Make = Callable[..., Flask]


def test_alive_and_ready(browser: FlaskClient) -> None:
    """With everything there, both answer 200 with the instance's name."""
    assert browser.get("/livez").get_json() == {"status": "alive", "instance": "shop-a"}
    ready = {"status": "ready", "etcd": "ok", "redis": "ok", "sale": "ok", "instance": "shop-a"}
    assert browser.get("/readyz").get_json() == ready


def test_the_name_of_an_instance_is_sent_as_it_is(make: Make) -> None:
    """The bare answer has the letters that were given, in UTF-8, and no escapes for them."""
    assert '"instance": "Köln ☃"' in make(instance="Köln ☃").test_client().get("/livez").text


@pytest.mark.parametrize("setting", ["etcd_endpoints", "redis_url"])
def test_not_ready_names_what_is_unavailable(make: Make, setting: str) -> None:
    """Without etcd or Redis the instance lives, is not ready, names what is missing, and sells nothing."""
    nowhere = f"127.0.0.1:{free_port()}"
    server, change = ("etcd", nowhere) if setting == "etcd_endpoints" else ("redis", f"redis://{nowhere}/0")
    app = make(**{setting: change})
    browser = app.test_client()
    assert browser.get("/livez").status_code == 200
    ready = browser.get("/readyz")
    assert (ready.status_code, ready.mimetype) == (503, "application/problem+json")
    assert ready.get_json()["detail"] == f"Cannot be used: {server}."
    assert [name for name in ("etcd", "redis") if ready.get_json()[name] != "ok"] == [server]
    for guard in ("etcd", "redis-watch", "redis-lua"):
        bought = buy(app, guard)
        assert (bought["status"], bought["outcome"], bought["retry_after"]) == (503, "unavailable", "1")
        assert (bought["title"], bought["in_doubt"]) == ("Unavailable", False)
        assert re.search(r"[^.?][.?] Nothing was written; try again when (etcd|Redis) is back\.$", bought["detail"])
    if server == "etcd":
        lock = browser.get("/lock")
        assert lock.status_code == 503
        assert lock.get_json()["detail"].endswith("is etcd running there? Try again in a moment.")
    else:
        for answer in (browser.get("/stock"), browser.post("/stock/reset")):
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert (answer.get_json()["title"], answer.get_json().get("in_doubt", False)) == ("Unavailable", False)


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
