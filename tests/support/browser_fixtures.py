"""A browser for the tests of pages, those of the labs included.

Playwright is imported only where a browser is wanted, so that these files can be collected without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from scripts.chromium import find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The program; where there is none, tests that need it are skipped."""
    try:
        return find_chromium()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Browser]:
    """A browser without a window, for one module: its event loop would be in the way of other modules' asyncio."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path)
        yield browser
        browser.close()
