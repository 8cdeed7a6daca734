"""A board that watches the sale of each test's own shop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.board import create_board
from app.board.live.sampler import Sampler
from app.board.settings import BoardSettings
from app.config.settings import Settings
from loadtest.ports import free_port
from tests.support.waiting import wait_until


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


Watch = Callable[..., "Watcher"]


class Watcher:
    """A sampler that runs, and what it knows now."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    @property
    def now(self) -> dict[str, Any]:
        """What a new viewer receives."""
        return self.sampler.snapshot()[1]

    def wait_orders(self, count: int) -> dict[str, Any]:
        """What is known as soon as so many orders are."""
        return self.wait(lambda now: now["sale"] and now["sale"]["orders"] == count)

    def wait(self, happened: Callable[[dict[str, Any]], object], *, timeout: float = 30.0) -> dict[str, Any]:
        """What is known as soon as `happened` holds of it."""
        wait_until(lambda: bool(self.now.get("unavailable")) and happened(self.now), timeout=timeout)
        return self.now


@pytest.fixture
def watch(board_settings: BoardSettings) -> Iterator[Watch]:
    """Begins to watch, with changes to the board's settings and to those of its shop; stops at the end of the test."""
    running: list[Sampler] = []

    def begin(*, instances: tuple[str, ...] = board_settings.instances, **shop: Any) -> Watcher:
        settings = board_settings.model_copy(
            update={"instances": instances, "shop": board_settings.shop.model_copy(update=shop)}
        )
        sampler: Sampler = create_board(settings).extensions["board"].sampler
        running.append(sampler)
        sampler.start()
        return Watcher(sampler)

    yield begin
    for sampler in running:
        sampler.close()
        sampler.join(timeout=30)
        assert not sampler.is_alive()
