"""The pages from a disk, without a network: what they show, for eyes, for ears, and for those without a mouse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from labs.site.recordings import mistakes
from labs.site.tests.playing import Keyboard
from tests.support.browser_fixtures import Open, Page
from tests.support.legible import assert_legible, english, on_every_screen

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

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


# What holds for the board's pages holds for those of the site: for eyes, for ears, and for those without a mouse.


READY = {  # what a page shows when all is there; it takes no network, but a moment
    "index": "#cards a",
    "watch": "#runs tr",
    "scheduler": "[data-do='step A']:not([aria-disabled=true])",
    "holder": "#next:visible",
    "schedules": "#graph rect",
    "mistakes": "[data-do='step A']:not([aria-disabled=true])",
    "libraries": ".document table",
}
NAMES = ["stock-flash-sale", "make schedules", "Shift", "shop-", "Range", "Put", "threading.Lock"]
COMMANDS = r"\b(GET|SET|DEL|EVALSHA|DECR|EXISTS|SETNX|PEXPIRE|NX|MULTI)\b.*|\w+\.lua|^github.com/.*"
# What Tab should reach, and in the end has reached.
CAN_HAVE_FOCUS = """() => [...document.querySelectorAll("a[href], button, select, input, [tabindex='0']")].filter(
  (node) => node.checkVisibility() && !node.disabled).length"""
FOCUSED = """() => {
  const node = document.activeElement;
  if (node === document.body) return null;
  window.reached = (window.reached ?? new Set()).add(node);
  return getComputedStyle(node).outlineStyle === "none" ? node.outerHTML : "";
}"""


def opened(open_page: Open, site: Path, name: str, **context: str) -> Page:
    page = open_page((site / f"{name}.html").as_uri(), reduced_motion="reduce", **context)
    page.wait_for_selector(READY[name])
    return page


@pytest.mark.parametrize("name", READY)
def test_every_page_is_there_for_eyes_for_ears_and_without_a_mouse(open_page: Open, site: Path, name: str) -> None:
    """Headings, main part and names are there; Tab comes to all and shows where it is; all can be read everywhere.

    No link is dead.
    """
    page = opened(open_page, site, name)
    links = page.evaluate("[...document.links].filter((link) => link.offsetParent).map(({ href }) => href)")
    files = {link.partition("?")[0].partition("#")[0] for link in links if link.startswith("file:")}
    assert files <= {path.as_uri() for path in site.rglob("*.html")}
    told = page.locator("body").aria_snapshot()
    assert len(re.findall(r"heading .*\[level=1\]", told)) == 1, told
    assert page.locator("main").count() == 1
    assert re.findall(r"^\s*- (?:img|button|link|slider|combobox|group)(?: \[.*\])?:?$", told, re.MULTILINE) == [], told
    number = page.evaluate(CAN_HAVE_FOCUS)
    for _ in range(number + 1):  # once it leaves the page, to come in again
        page.keyboard.press("Tab")
        assert not page.evaluate(FOCUSED)
    assert page.evaluate("reached.size") == number
    for _ in on_every_screen(page):
        assert_legible(page, least=20)


@pytest.mark.parametrize("name", [name for name in READY if name != "libraries"])  # which quotes its sources
def test_every_text_is_chinese(open_page: Open, site: Path, name: str) -> None:
    """But for names and commands, from the first step of a level to its end."""
    page = opened(open_page, site, name, locale="zh-CN")
    same = [*NAMES, *mistakes()]
    found = english(page, *same)
    if name in ("scheduler", "mistakes"):
        hand = Keyboard(page)
        while not page.inner_text("#result"):
            buyer = "A" if page.locator("[data-do='step A']:not([aria-disabled=true])").count() else "B"
            hand.press("step", buyer)
            found += english(page, *same)
    assert [text for text in found if re.search("[A-Za-z]{2,}", re.sub(COMMANDS, "", text))] == []
