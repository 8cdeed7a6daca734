"""A browser for the tests of pages, those of the labs included.

Playwright is imported only where a browser is wanted, so that these files can be collected without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from scripts.chromium import find_chromium
from tests.support.looking import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Browser
    from playwright.sync_api import Page as Page
else:
    Browser = Page = Any

Open = Callable[..., Page]


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


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Open]:
    """Opens an address, each time for another viewer; at the end no browser may have complained.

    A page that is `alone` may send no request.
    """
    complaints: list[str] = []
    pages: list[Page] = []

    def open_page(address: str, *, alone: bool = False, **context: Any) -> Page:
        page = chromium.new_page(**context)
        pages.append(page)
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.extend([said.text] * (said.type in ("error", "warning"))))
        page.on("request", lambda sent: complaints.extend([sent.url] * (alone and not sent.is_navigation_request())))
        page.goto(address)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
