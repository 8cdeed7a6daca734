"""The pages from a disk, without a network: what they show happened, and they send nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

Open = Callable[..., "Page"]
ROOT = Path(__file__).parents[3]
CARDS = ["watch", "scheduler", "holder", "schedules", "mistakes", "libraries"]


def test_the_first_page_leads_to_each_other_page(open_page: Open, served: str) -> None:
    """From a server, below any path: by a card, which keeps the language, and back."""
    page = open_page(f"{served}/index.html", locale="zh")
    links = page.eval_on_selector_all("#cards a", "links => links.map(({ href }) => href)")
    assert links == [f"{served}/{name}.html?lang=zh" for name in CARDS]
    for link in links:
        page.goto(link)
        page.click("header a[href^='index.html']")
        page.wait_for_selector("#cards")


def test_a_rush_plays_and_explains_itself(open_page: Open, site: Path) -> None:
    """It ends with the verdict of its record; the next one is under a lock; slow motion has its moves."""
    record = json.loads((ROOT / "tests/data/rush-none.json").read_text(encoding="utf-8"))
    page = open_page((site / "watch.html").as_uri())
    page.wait_for_selector("#play:text-is('Pause')")
    page.wait_for_selector(".story, #next:visible")
    page.keyboard.press("Escape")
    assert page.inner_text("#word") == f"OVERSOLD by {record['verdict']['oversold']}"
    page.click("#slow-motion")
    page.wait_for_selector(".slow-dialog .sentence")
    page.keyboard.press("Escape")
    page.click("#next")
    page.wait_for_selector("#runs tr.current[data-key=etcd]")
    page.focus("#scrub")
    page.keyboard.press("End")
    page.wait_for_selector("#word:text-is('EXACT')")
    assert page.locator("#runs tr").count() == 2


def test_the_holder_pauses_and_wakes_up(open_page: Open, site: Path) -> None:
    """It waits for the reader before the holder wakes up; then two guards have sold twice, and one has not."""
    page = open_page((site / "holder.html").as_uri())
    page.click("#next:visible")
    page.wait_for_selector("#columns [data-guard=etcd] .word")
    guards = ("etcd-unfenced", "etcd-checked", "etcd")
    words = [page.inner_text(f"[data-guard={guard}] .word") for guard in guards]
    assert words == ["OVERSOLD by 1", "OVERSOLD by 1", "EXACT"]
    page.click("[data-scene=pause]:enabled")
    page.wait_for_selector("#next:visible")
    page.click("#stop")
    page.wait_for_selector("[data-scene=pause]:enabled")


def test_a_link_of_the_schedules_leads_to_the_page_of_its_guard(open_page: Open, site: Path) -> None:
    """The levels are on one page, and the mistakes on another."""
    page = open_page((site / "schedules.html").as_uri())
    for guard, file in (("none", "scheduler.html"), ("ask-then-decrease", "mistakes.html")):
        page.click(f"#guards button[value={guard}]")
        page.wait_for_selector(f"#steps[href*='guard={guard}']")
        assert str(page.get_attribute("#steps", "href")).startswith(f"{file}?lang=en#guard={guard}&")
