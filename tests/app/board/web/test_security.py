"""What the board tells browsers about its page, and which files it serves."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient


@pytest.mark.parametrize("address", ["/", "/static/main.js", "/setup", "/nowhere"])
def test_every_answer_is_protected(board: FlaskClient, address: str) -> None:
    """Scripts and styles come from the board alone, and no other page may put it into a frame."""
    headers = board.get(address).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_the_page_needs_no_other_host(board: FlaskClient) -> None:
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
