"""Every error is a problem document with the instance's name."""

from __future__ import annotations

import pytest
from flask import Flask
from flask.testing import FlaskClient


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
    """An unexpected exception is a 500 that gives nothing away, and is logged with its traceback."""

    def fail() -> str:
        raise RuntimeError("secret of the house")

    app.add_url_rule("/fail", view_func=fail)
    answer = app.test_client().get("/fail")
    assert (answer.status_code, answer.mimetype) == (500, "application/problem+json")
    assert answer.get_json()["instance"] == "shop-a"
    assert "defect of the shop" in answer.get_json()["detail"]
    assert "secret" not in answer.text
    assert "secret of the house" in caplog.text
