"""make show: the pictures that it takes, and what is on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadtest.results.comparison import GUARDS
from loadtest.stack.apps import LocustPage
from loadtest.stack.stack import Stack
from scripts.show.runs import comparison
from tests.browser.conftest import DATA
from tests.browser.test_looks import SCREENS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from scripts.show.camera import Camera

IMAGES = Path(__file__).resolve().parents[2] / "docs/images"
PAGE = "<title>Page</title><body style='margin: 0; height: 2000px; background: Canvas; color-scheme: light dark'>"


@pytest.fixture
def camera(chromium: Browser, tmp_path: Path) -> Callable[..., Camera]:
    """Makes one whose pictures are in `tmp_path`; imported here, because it needs a browser's packages."""
    from scripts.show.camera import Camera

    return lambda *, every: Camera(chromium, tmp_path / "pictures", every)


def pictures(directory: Path) -> dict[str, tuple[int, int]]:
    """Sizes in pixels of all pictures, by name."""
    from PIL import Image

    return {path.name: Image.open(path).size for path in directory.glob("pictures/*.png")}


@pytest.mark.parametrize("every", [False, True])
def test_the_sizes_of_pictures(camera: Callable[..., Camera], tmp_path: Path, every: bool) -> None:
    """Documents have a dark and a light picture of scenes that they show; `every` adds whole pages on all screens."""
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    taker = camera(every=every)
    with taker.views((tmp_path / "page.html").as_uri()) as views:
        if not every:
            taker.shoot(views, "page-top")
        taker.shoot(views, "page", shown=False)
    found = pictures(tmp_path)
    whole_pages = [(width, 2000) for width, _ in SCREENS for _ in ("dark", "light")]
    assert sorted(found.values()) == sorted(whole_pages if every else [(1280, 720)] * 2)
    assert {name.rpartition("-")[2] for name in found} == {"dark.png", "light.png"}


def test_a_smaller_picture_looks_the_same(camera: Callable[..., Camera], tmp_path: Path) -> None:
    """A small picture keeps the colour of a few pixels, and that of the ground."""
    from PIL import Image

    mark = "<i style='position: absolute; left: 0; top: 0; width: 3px; height: 3px; background: #f00'>"
    (tmp_path / "page.html").write_text(PAGE.replace("Canvas", "#08f") + mark, encoding="utf-8")
    taker = camera(every=False)
    with taker.views((tmp_path / "page.html").as_uri()) as views:
        taker.shoot(views, "page")
    picture = Image.open(tmp_path / "pictures/page-dark.png").convert("RGB")
    assert (picture.getpixel((1, 1)), picture.getpixel((600, 600))) == ((255, 0, 0), (0, 136, 255))


def test_the_board_is_photographed(
    camera: Callable[..., Camera], stack: Stack, locust: LocustPage, tmp_path: Path
) -> None:
    """The documents' pictures of the board show two rushes that it started, and a record that it opened."""
    from scripts.show import board as scene
    from scripts.show import film

    assert stack.board is not None
    taker = camera(every=False)
    events = scene.photograph(taker, stack.board.url, locust.url, DATA / "rush-none.json")
    assert set(pictures(tmp_path)) == {path.name for path in IMAGES.glob("board-*.png")}
    sales = [film.sale(event) for event in events]
    none, etcd = ([sale for sale in sales if sale and sale["guard"] == guard] for guard in ("none", "etcd"))
    assert none[-1]["orders"] > 300
    assert (etcd[-1]["orders"], etcd[-1]["verdict"]) == (300, "EXACT")
    film.draw(taker, stack.board.url, events)
    assert_moving(tmp_path / "pictures")


def assert_moving(directory: Path) -> None:
    """Both colour schemes show the same moments of the two rushes, and each is small."""
    from PIL import Image

    lengths = []
    for path in sorted(directory.glob("*.webp")):
        with Image.open(path) as picture:
            lengths.append((picture.n_frames, picture.size))
        assert path.stat().st_size < 2_000_000
    (frames, size), other = lengths
    assert other == (frames, size)
    assert frames > 20
    assert {path.name for path in directory.glob("*.webp")} == {path.name for path in IMAGES.glob("*.webp")}


def test_a_film_shows_the_sale_whenever_it_changed() -> None:
    """Events without a change of the sale belong to the moment before; none is lost."""
    from scripts.show.film import moments

    sales = [None, None, {"orders": 1}, {"orders": 1}, {"orders": 2}]
    events = [(float(at), "sample", json.dumps({"sale": sale})) for at, sale in enumerate(sales)]
    assert moments(events) == [events[:2], events[2:4], events[4:]]


def test_the_comparison_is_a_real_one(stack: Stack, tmp_path: Path) -> None:
    """The report is of a rush under every guard on the stack, with the critical sections of each."""
    report = comparison(tmp_path, stack).read_text(encoding="utf-8")
    assert report.count('role="region" aria-label="Timeline of ') == len(GUARDS)


def test_the_verdict_tab_is_photographed(camera: Callable[..., Camera], locust: LocustPage, tmp_path: Path) -> None:
    """The form of Locust's page starts a rush under every guard, and the pictures wait for the last verdict."""
    from scripts.show import locust as scene

    scene.photograph(camera(every=False), locust.url)
    assert set(pictures(tmp_path)) == {"locust-verdict-dark.png", "locust-verdict-light.png"}
