"""The site, made once of what is recorded here, and a browser without a network."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from labs.site.pages import Site
from labs.site.recordings import graphs, scene
from tests.support.browser_fixtures import chromium, chromium_path
from tests.support.looking import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[3]
GRAPHS = ("none", "redis-lua", "ask-then-decrease")
Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few graphs, and a scene; the rushes are those of the tests' data."""
    folder = tmp_path_factory.mktemp("recordings")
    (folder / "records").mkdir()
    for guard in ("none", "etcd"):
        shutil.copy(ROOT / f"tests/data/rush-{guard}.json", folder / f"records/{guard}.json")
    scene(tmp_path_factory.mktemp("stack"), folder / "scene.json")
    graphs(tmp_path_factory.mktemp("schedules"), folder / "graphs", GRAPHS)
    return folder


@pytest.fixture(scope="session")
def site(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("server") / "below/site"
    folder.mkdir(parents=True)
    for name, text in Site(recordings, documents=False).pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Open]:
    """Opens an address; the page may send no request, and the browser may not say anything about it."""
    complaints: list[str] = []
    pages: list[Page] = []

    def open_page(address: str, **context: Any) -> Page:
        page = chromium.new_page(**{"offline": address.startswith("file:"), "locale": "en", **context})
        pages.append(page)
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text))
        page.on("request", lambda request: complaints.extend([] if request.is_navigation_request() else [request.url]))
        page.goto(address)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
