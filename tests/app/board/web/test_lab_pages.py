"""Labs add pages to the board."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from flask import Flask

from app.board import create_board
from app.board.settings import BoardSettings
from app.contract import labs

LINK = {"path": "/tried", "text": {"en": "Try", "zh": "试"}}


def test_a_lab_adds_a_page(board_settings: BoardSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page is served, also to links from elsewhere, and its link told; without labs there is neither."""

    def init_app(app: Flask, settings: BoardSettings) -> None:
        app.add_url_rule("/tried", "tried", lambda: f"sale {settings.shop.sale}")
        app.add_url_rule("/tried/state", "state", dict)

    find, found = labs.modules, [SimpleNamespace(init_app=init_app, LINK=LINK)]
    monkeypatch.setattr(labs, "modules", lambda part: found if part == "board" else find(part))
    board = create_board(board_settings).test_client()
    assert board.get("/tried").text == f"sale {board_settings.shop.sale}"
    assert board.get("/setup").get_json()["links"] == [LINK]
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert [board.get(path, headers=elsewhere).status_code for path in ("/tried", "/tried/state")] == [200, 403]
    found.clear()
    board = create_board(board_settings).test_client()
    assert (board.get("/setup").get_json()["links"], board.get("/tried").status_code) == ([], 404)
