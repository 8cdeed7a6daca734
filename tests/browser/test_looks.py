"""The page can be read from the back of a room, by keyboard alone, by a screen reader, in Chinese, on every screen."""

from __future__ import annotations

import pytest

from tests.browser.conftest import DATA, Look
from tests.support.legible import assert_readable, english, on_every_screen
from tests.support.shops import Sales

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

REGIONS = ["Stock", "Last run", "In line for the lock", 'Instances"', "Critical sections"]


def test_everything_can_be_read(look: Look, sales: Sales) -> None:
    """Amid a rush and at its end: nothing too small, too faint or cut off, and no scrolling on a projector."""
    looker = look(reduced_motion="reduce")
    sales.rush("none", stock=60, buyers=100, hold_ms=10)
    sales.finish()
    sales.rush(stock=60, buyers=200, hold_ms=100)
    looker.wait_text("#waiters", "#[0-9]+")
    looker.wait_figure("sold", 10)
    for _ in on_every_screen(looker.page):
        assert_readable(looker.page)
    sales.finish()
    looker.wait_figure("sold", 60)
    for width in on_every_screen(looker.page):
        assert_readable(looker.page)
        if width > 1000:
            assert looker.page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")


def test_the_keyboard_reaches_everything_and_a_screen_reader_finds_it(look: Look, sales: Sales) -> None:
    """Tab, Enter and arrows reach a kept run, its bars, the way back and a reset; the focus is visible.

    There are one heading, named regions, tables with headings and pictures with texts, in order.
    """
    sales.rush(stock=5, buyers=8, hold_ms=1)
    sales.finish()
    looker = look()
    looker.wait_text("#runs", "etcd")
    keys = looker.page.keyboard

    def tab_to(selector: str, key: str = "Tab") -> None:
        for _ in range(60):
            keys.press(key)
            outline = looker.page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", looker.page.evaluate("() => document.activeElement.outerHTML")
            if looker.page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"{key} does not lead to {selector}")

    tab_to("[title='Open the last run under etcd']")
    keys.press("Enter")
    looker.page.wait_for_selector("#source[data-state=recorded]")
    tab_to("#timeline")
    keys.press("Home")
    looker.wait_text("#detail", "token [0-9]+ .* alone$")
    first = looker.text("#detail")
    keys.press("ArrowRight")
    assert looker.text("#detail") != first
    tab_to("#close-record", "Shift+Tab")
    keys.press("Enter")
    looker.page.wait_for_selector("#source[data-state=live]")
    tab_to("#toggle-controls", "Shift+Tab")
    keys.press("Enter")
    tab_to("#reset-form [name=stock]")
    keys.type("9")
    keys.press("Enter")
    looker.wait_text("#said", "The sale begins again with 9 items.")
    looker.wait_text("#word", "9 items for sale")
    assert (sales.stock()["initial"], sales.stock()["orders"]) == (9, 0)
    told = looker("body").aria_snapshot()
    names = [
        'heading "9 items for sale" [level=1]',
        *(f'region "{name}' for name in REGIONS),
        "status: 9 items for sale",
    ]
    places = [told.find(name) for name in ('heading "9 items for sale" [level=1]', *names)]
    assert -1 not in places, told
    assert places == sorted(places), told
    assert 'img "Stock 0 of 9 sold"' in told
    assert 'rowheader "instance-' in told


def test_every_text_is_chinese(look: Look, sales: Sales) -> None:
    """Before, in and after a rush, with all that can be opened, no word is left in English; the switch goes back."""
    looker = look(locale="zh-CN")
    assert looker("html").get_attribute("lang") == "zh"
    for button in ("#toggle-details", "#toggle-controls", "#toggle-open"):
        looker.page.click(button)
    sales.rush(stock=60, buyers=200, hold_ms=20)
    looker.wait_figure("sold", 10)
    looker("#timeline").press("End")
    assert english(looker.page) == []
    sales.finish()
    looker.wait_text("#word", "^准确$")
    looker.page.wait_for_selector(".story")  # the first rush explains itself
    assert english(looker.page) == []
    looker.page.keyboard.press("Escape")
    sales.rush("none", stock=60, buyers=100, hold_ms=10)
    sales.finish()
    looker.wait_text("#word", "^超卖 [0-9]+ 件$")
    assert english(looker.page) == []
    looker.page.click("#toggle-open")
    assert_readable(looker.page)
    looker.page.set_input_files("#file", DATA / "rush-none.json")
    looker.page.wait_for_selector("#close-record:visible")
    assert english(looker.page) == []
    looker.page.click("#language")
    looker.page.wait_for_selector("html[lang=en]")
    looker.wait_text("#word", "^OVERSOLD by ")
