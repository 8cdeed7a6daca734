"""Labs add pages and panels to the board."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from flask import Blueprint, Flask

from app.board import create_board
from app.board.settings import BoardSettings
from app.board.web.lab_parts import add_link, add_panel
from app.contract import labs

TITLE = {"en": "Try", "zh": "试"}


def test_a_lab_adds_its_pages(board_settings: BoardSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab's routes and files are served, its page also to links from elsewhere; without labs there is nothing."""
    (tmp_path / "panel.js").write_text("export function init() {}")

    def init_app(app: Flask, settings: BoardSettings) -> None:
        lab = Blueprint("tried", __name__, url_prefix="/tried", static_folder=tmp_path, static_url_path="/static")
        lab.get("/")(lambda: f"sale {settings.shop.sale}")
        app.register_blueprint(lab)
        add_link(app, "/tried/", TITLE)
        add_panel(app, "/tried/static/panel.js")

    found = {"board": [SimpleNamespace(init_app=init_app)]}
    monkeypatch.setattr(labs, "modules", lambda part: found[part])
    board = create_board(board_settings).test_client()
    assert board.get("/tried/").text == f"sale {board_settings.shop.sale}"
    assert board.get("/tried/static/panel.js").text == "export function init() {}"
    told = {"links": [{"path": "/tried/", "title": TITLE}], "panels": ["/tried/static/panel.js"]}
    assert board.get("/setup").get_json()["labs"] == told
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert [board.get(path, headers=elsewhere).status_code for path in ("/tried/", "/setup")] == [200, 403]
    found["board"] = []
    board = create_board(board_settings).test_client()
    assert board.get("/setup").get_json()["labs"] == {"links": [], "panels": []}
    assert board.get("/tried/").status_code == 404
