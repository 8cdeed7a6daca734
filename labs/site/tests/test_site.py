"""The pages from a disk, without a network: what they show happened, and they send nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

Open = Callable[..., "Page"]
MB = 1_000_000
NAMES = ["index", "watch", "holder", "libraries"]


def test_pages_are_small_and_their_links_lead_to_each_other(site: Path) -> None:
    """None is above 1 MB, and together they are below 6 MB."""
    sizes = {path.stem: path.stat().st_size for path in site.glob("*.html")}
    assert sorted(sizes) == sorted(NAMES)
    assert max(sizes.values()) < MB
    assert sum(sizes.values()) < 6 * MB


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1280])
def test_each_page_opens_from_a_disk(open_page: Open, width: int, scheme: str, language: str) -> None:
    """On a phone and on a projector, in both languages, light and dark; none is wider than the window."""
    for name in NAMES:
        page = open_page(f"{name}.html", locale=language, color_scheme=scheme, viewport={"width": width, "height": 720})
        page.wait_for_selector("footer.recorded" if name != "libraries" else "header h1:not(:empty)", state="attached")
        assert page.evaluate("document.documentElement.lang") == language
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.close()


def test_the_first_page_leads_to_each_other_page(open_page: Open, site: Path) -> None:
    """By a card, which keeps the language; back, too."""
    page = open_page("index.html", locale="zh")
    links = page.eval_on_selector_all("#cards a", "links => links.map(({ href }) => href)")
    assert [link.rpartition("/")[2] for link in links] == [f"{name}.html?lang=zh" for name in NAMES[1:]]
    for link in links:
        page.goto(link)
        page.click("header a[href^='index.html']")
        page.wait_for_selector("#cards")


def test_a_rush_plays_and_explains_itself(open_page: Open, site: Path) -> None:
    """It ends with the verdict of its record; the next one is under a lock; slow motion has its moves."""
    record = json.loads((Path(__file__).parents[3] / "tests/data/rush-none.json").read_text(encoding="utf-8"))
    page = open_page("watch.html")
    page.wait_for_selector("#player button:text-is('Pause')")
    page.wait_for_selector(".story, #next:visible")
    page.keyboard.press("Escape")
    assert page.inner_text("#word") == f"OVERSOLD by {record['verdict']['oversold']}"
    page.click("#slow-motion")
    page.wait_for_selector(".slow-dialog .sentence")
    page.keyboard.press("Escape")
    page.click("#next")
    page.wait_for_selector("#runs tr.current[data-key=etcd]")
    page.click("#play")
    page.focus("#scrub")
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('#word').textContent === 'EXACT'")
    assert page.locator("#runs tr").count() == 2


def test_a_rush_stands_still_for_who_asks_for_it(open_page: Open) -> None:
    """With reduced motion its end is there at once, and nothing moves."""
    page = open_page("watch.html", reduced_motion="reduce")
    page.wait_for_selector("#player button:text-is('Play')")
    assert page.inner_text("#word").startswith("OVERSOLD by ")
    page = open_page("index.html", reduced_motion="reduce")
    page.wait_for_selector("#pause:text-is('Play')")


def test_the_holder_pauses_and_wakes_up(open_page: Open) -> None:
    """It waits for the reader before the holder wakes up; then two guards have sold twice, and one has not."""
    page = open_page("holder.html")
    page.click("#next:visible")
    page.wait_for_selector("#columns [data-guard=etcd] .word")
    words = {
        guard: page.inner_text(f"[data-guard={guard}] .word") for guard in ("etcd-unfenced", "etcd-checked", "etcd")
    }
    assert [*words.values()] == ["OVERSOLD by 1", "OVERSOLD by 1", "EXACT"]
    page.click("[data-scene=pause]:enabled")
    page.wait_for_selector("#next:visible")
    page.click("#stop")
    page.wait_for_selector("[data-scene=pause]:enabled")
