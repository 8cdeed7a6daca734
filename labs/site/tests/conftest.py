"""The site, made of what was recorded, and a browser without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from labs.site.pages import Site
from labs.site.recordings import scene
from tests.support.browser_fixtures import Open, Page
from tests.support.serving import answering

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scene that is played here; the graphs that came with the repository, and the rushes of the tests' data."""
    folder = tmp_path_factory.mktemp("recordings")
    for part in ("records", "graphs"):
        (folder / part).mkdir()
    for guard in ("none", "etcd"):
        shutil.copy(ROOT / f"tests/data/rush-{guard}.json", folder / f"records/{guard}.json")
    for path in ROOT.glob("labs/*/recorded/schedules-*.json"):
        shutil.copy(path, folder / "graphs")
    scene(tmp_path_factory.mktemp("stack"), folder / "scene.json")
    return folder


@pytest.fixture(scope="session")
def site(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in Site(recordings).pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "docs").mkdir()
    (folder / "docs/index.html").touch()
    return folder


@pytest.fixture(scope="session")
def served(site: Path) -> Iterator[str]:
    """The site's address on a static server, in a folder below its root."""

    def read(request: BaseHTTPRequestHandler, _: bytes) -> bytes:
        return (site / urlsplit(request.path).path.removeprefix("/below/site/")).read_bytes()

    with answering(read) as url:
        yield f"{url}/below/site"


@pytest.fixture
def open_page(open_page: Open) -> Open:
    """Opens an address, without a network where it is a file; the page may send no request."""

    def open_alone(address: str, **context: Any) -> Page:
        return open_page(address, alone=True, **{"offline": address.startswith("file:"), "locale": "en", **context})

    return open_alone
