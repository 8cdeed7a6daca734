"""The site, made once of what is recorded here, and a browser without a network."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser_fixtures import chromium, chromium_path
from tests.support.looking import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[3]
Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site; the rushes are those of the tests' data."""
    folder = tmp_path_factory.mktemp("site")
    recordings, output = folder / "recordings", folder / "below/site"
    (recordings / "records").mkdir(parents=True)
    for guard in ("none", "etcd"):
        shutil.copy(ROOT / f"tests/data/rush-{guard}.json", recordings / f"records/{guard}.json")
    words = ["--output", str(output), "--recordings", str(recordings), "--no-documents"]
    done = subprocess.run(
        [sys.executable, "-m", "loadtest", "site", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return output


@pytest.fixture
def open_page(chromium: Browser, site: Path) -> Iterator[Open]:
    """Opens a page from the disk; it may send no request, and the browser may not say anything about it."""
    complaints: list[str] = []
    pages: list[Page] = []

    def open_page(name: str, **context: Any) -> Page:
        page = chromium.new_page(**{"offline": True, "locale": "en", **context})
        pages.append(page)
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text))
        page.on("request", lambda request: request.is_navigation_request() or complaints.append(request.url))
        page.goto((site / name).as_uri())
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
