"""What holds for the board's pages holds for those of the site: for eyes, for ears, and for those without a mouse."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from labs.site.recordings import mistakes
from labs.site.tests.playing import Hand
from tests.support.legible import assert_legible, english, on_every_screen

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

Open = Callable[..., "Page"]
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
        hand = Hand(page, "mouse")
        while not page.inner_text("#result"):
            buyer = "A" if page.locator("[data-do='step A']:not([aria-disabled=true])").count() else "B"
            hand.press("step", buyer)
            found += english(page, *same)
    assert [text for text in found if re.search("[A-Za-z]{2,}", re.sub(COMMANDS, "", text))] == []
