"""The board of a real stack in a real browser: Debian's Chromium, headless, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loadtest.stack.apps import LocustPage
from loadtest.stack.stack import Stack
from tests.support.browser_fixtures import Browser
from tests.support.looking import PATIENCE_MS, Looker
from tests.support.rushing import environment
from tests.support.shops import Sales, open_sale

DATA = Path(__file__).resolve().parents[1] / "data"
Look = Callable[..., Looker]


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """etcd, Redis, two shops with many threads and the board; leave them as they were."""
    reports = tmp_path_factory.mktemp("reports")
    shutil.copytree(DATA, reports / "2026-01-01_00-00-00" / "records")
    env = {
        "FLASHSALE_REPORTS": str(reports),
        "FLASHSALE_THREADS": "64",
        "FLASHSALE_LOCK_TIMEOUT": "60",
        "FLASHSALE_LEASE_TTL": "4",
    }
    with Stack(tmp_path_factory.mktemp("stack"), ports="free", board=True, env=env) as stack:
        yield stack


@pytest.fixture(scope="module")
def locust(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocustPage]:
    """Locust with its page, ready for rushes that the board asks it for."""
    with LocustPage(tmp_path_factory.mktemp("locust"), stack.locust_port, env=environment(stack)) as page:
        yield page


@pytest.fixture
def sales(stack: Stack) -> Sales:
    """Sends buyers, and knows what the ledger has; the sale is open, whatever the test before left."""
    open_sale(stack)
    return Sales(stack)


@pytest.fixture
def look(chromium: Browser, stack: Stack) -> Iterator[Look]:
    """Opens the board, each time for another viewer; at the end no browser may have complained."""
    lookers: list[Looker] = []

    def open_board(**context: Any) -> Looker:
        page = chromium.new_page(**{"viewport": {"width": 1280, "height": 720}, **context})
        page.set_default_timeout(PATIENCE_MS)
        assert stack.board is not None
        looker = Looker(page, stack.board.url)
        lookers.append(looker)
        looker.open()
        return looker

    yield open_board
    for looker in lookers:
        looker.page.close()
    assert [complaint for looker in lookers for complaint in looker.complaints] == []
