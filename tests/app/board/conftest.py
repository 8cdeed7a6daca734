"""A board that watches the sale of each test's own shop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from app import create_app, services
from app.board import create_board
from app.board.live.sampler import Sampler
from app.board.settings import BoardSettings
from app.config.settings import Settings
from loadtest.stack.ports import free_port
from tests.support.waiting import wait_until


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Those of the shop, which records what it does."""
    return replace(settings, section_log=tmp_path / "section-log")


@pytest.fixture
def board_settings(settings: Settings) -> BoardSettings:
    """A board for this shop, with nobody at the addresses of instances and Locust."""
    nobody = f"http://127.0.0.1:{free_port()}"
    return BoardSettings(shop=settings, instances=(nobody,), locust=nobody)


@pytest.fixture
def board(board_settings: BoardSettings) -> FlaskClient:
    """Somebody who asks the board; its sampler does not run."""
    return create_board(board_settings).test_client()


@pytest.fixture
def shop(settings: Settings) -> Iterator[FlaskClient]:
    """Somebody who buys."""
    app: Flask = create_app(settings)
    yield app.test_client()
    services.of(app).close()


Watch = Callable[[BoardSettings], "Watcher"]


class Watcher:
    """A sampler that runs, and what it knows now."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    @property
    def now(self) -> dict[str, Any]:
        """What a viewer is told who comes now."""
        return self.sampler.snapshot()[1]

    def wait_orders(self, count: int) -> dict[str, Any]:
        """What is known as soon as so many orders are."""
        return self.wait(lambda now: now["sale"] and now["sale"]["orders"] == count)

    def wait(self, happened: Callable[[dict[str, Any]], object], *, timeout: float = 10.0) -> dict[str, Any]:
        """What is known as soon as `happened` holds of it."""
        wait_until(lambda: bool(self.now.get("unavailable")) and happened(self.now), timeout=timeout)
        return self.now


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Begins to watch with these settings; stops at the end of the test."""
    running: list[Sampler] = []

    def begin(settings: BoardSettings) -> Watcher:
        sampler: Sampler = create_board(settings).extensions["sampler"]
        running.append(sampler)
        sampler.start()
        return Watcher(sampler)

    yield begin
    for sampler in running:
        sampler.close()
    for sampler in running:
        sampler.join(timeout=5)
        assert not sampler.is_alive()
