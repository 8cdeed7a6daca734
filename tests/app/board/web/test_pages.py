"""The board's page: its setup, its protection in browsers, and the files that are served."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from app.board import create_board
from app.board.settings import BoardSettings

RUN = "2026-01-01_00-00-00"


@pytest.mark.parametrize("damaged", [f"{RUN}/records/\udcff.json", "\udcff/records/etcd.json"])
def test_a_name_that_is_no_text_is_not_offered(board_settings: BoardSettings, tmp_path: Path, damaged: str) -> None:
    """A file name that is not UTF-8 is left out, and the other records are offered."""
    for name in (f"{RUN}/records/etcd.json", f"{RUN}/records/none.json", damaged):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    answer = create_board(replace(board_settings, reports=tmp_path)).test_client().get("/setup")
    assert answer.status_code == 200
    assert answer.get_json()["reports"] == [f"{RUN}/records/etcd.json", f"{RUN}/records/none.json"]


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
