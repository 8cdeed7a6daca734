"""Who may look and who may control: pages of other sites may do neither."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from app.sales.sale import Sale

ORIGIN = "http://localhost"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://localhost:9999"},
        {"Origin": "http://localhost.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": ORIGIN},
    ],
)
def test_controls_of_other_pages_are_refused(board: FlaskClient, sale: Sale, headers: dict[str, str]) -> None:
    """A browser says whose page asks; another site's changes nothing, whichever control it tries."""
    for control in ("reset", "rush", "instance"):
        assert board.post(f"/control/{control}", json={"stock": 1}, headers=headers).status_code == 403
    assert sale.snapshot().initial == 10


def test_a_form_of_another_site_is_refused(board: FlaskClient, sale: Sale) -> None:
    """What browsers send without asking first is no JSON, and is refused even where they do not tell the origin."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert board.post("/control/reset", data='{"stock": 1}', content_type=kind).status_code == 415
    assert sale.snapshot().initial == 10


@pytest.mark.parametrize("headers", [{}, {"Origin": ORIGIN}, {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}])
def test_the_own_page_and_programs_may(board: FlaskClient, sale: Sale, headers: dict[str, str]) -> None:
    """The board's own page, and a program that is no browser, reset the sale."""
    answer = board.post("/control/reset", json={"stock": 4}, headers=headers)
    assert (answer.status_code, sale.snapshot().initial) == (200, 4)


def test_no_other_page_takes_a_viewers_place(board: FlaskClient) -> None:
    """Stream and runs are not for other sites, which could use up all places; a link to the page is welcome."""
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert board.get("/events", headers=headers).status_code == 403
    assert board.get("/runs/etcd", headers=headers).status_code == 403
    assert board.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("address", ["/", "/static/main.js", "/setup", "/nowhere"])
def test_every_answer_is_protected(board: FlaskClient, address: str) -> None:
    """Scripts and styles come from the board alone, and nobody puts it into a frame."""
    headers = board.get(address).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_the_page_needs_nobody_else(board: FlaskClient) -> None:
    """Page, styles and scripts name no other host, and carry no script or style that the policy would refuse."""
    page = board.get("/").text
    for name in ("board.css", "main.js", "icon.svg"):
        assert f"/static/{name}" in page
        assert board.get(f"/static/{name}").status_code == 200
    assert "style=" not in page
    assert "onclick" not in page
    assert page.count("<script") == 1


@pytest.mark.parametrize("name", ["../__init__.py", "..%2fsettings.py", "%2e%2e/__main__.py", "nothing.js"])
def test_no_other_file_is_served(board: FlaskClient, name: str) -> None:
    """What is not among the page's files is not there."""
    assert board.get(f"/static/{name}").status_code == 404
