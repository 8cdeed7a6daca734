"""A board that watches the sale of each test's own shop."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from app.board import create_board
from app.board.settings import BoardSettings
from app.config.settings import Settings
from loadtest.ports import free_port


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Those of the shop, which records what it does."""
    return settings.model_copy(update={"section_log": tmp_path / "section-log"})


@pytest.fixture
def board_settings(settings: Settings) -> BoardSettings:
    """A board for this shop; the addresses of instances and Locust are not in use."""
    unused = f"http://127.0.0.1:{free_port()}"
    return BoardSettings(shop=settings, instances=(unused,), locust=unused)


@pytest.fixture
def board(board_settings: BoardSettings) -> FlaskClient:
    """A client of the board; its sampler does not run."""
    return create_board(board_settings).test_client()
