"""The board speaks Chinese where the browser asks for it."""

from __future__ import annotations

import pytest

from tests.browser.conftest import DATA, Look
from tests.support.legible import assert_readable, english
from tests.support.selling import Sales


@pytest.mark.slow
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
