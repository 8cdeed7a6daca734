"""The room on the board: who may begin a sale, and what a board without a room says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from app.board import create_board
from app.board.settings import BoardSettings
from app.config.settings import Settings
from labs.room.settings import RoomSettings


def test_the_stage_begins_a_sale_with_the_token_alone(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a token is set, nothing is begun, ended or removed without it."""
    room = RoomSettings(url="http://192.0.2.10:8060", stage=Path("/nowhere/stage"), pin="4711")
    for name, value in room.environment().items():
        monkeypatch.setenv(name, value)
    shop = settings.model_copy(update={"admin_token": SecretStr("secret")})
    board = create_board(BoardSettings(shop=shop)).test_client()
    for path in ("/room/begin", "/room/end", "/room/remove"):
        assert board.post(path, json={}).status_code == 401
    token = {"Authorization": "Bearer secret"}
    silent = board.post("/room/end", json={}, headers=token)
    assert (silent.status_code, "does not answer" in silent.get_json()["detail"]) == (503, True)
    assert board.get("/room/setup").get_json()["pin"] == "4711"
    assert board.get("/room/code.svg").data.startswith(b"<?xml")


def test_a_board_without_a_room_says_how_to_start_one(settings: Settings) -> None:
    """Its state is a 404 with the command, and there is no code."""
    board = create_board(BoardSettings(shop=settings)).test_client()
    told = board.get("/room/state")
    assert (told.status_code, "make up ARGS=--room" in told.get_json()["detail"]) == (404, True)
    assert board.get("/room/code.svg").status_code == 404
