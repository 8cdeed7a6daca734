"""The board speaks Chinese where the browser asks for it."""

from __future__ import annotations

import re

import pytest

from app.guards import guards
from tests.browser.conftest import DATA, Look
from tests.browser.test_looks import assert_readable
from tests.support.looking import Looker
from tests.support.selling import Sales

# Names, units and commands, which no language changes; the lines of a guard's file stay as they are written.
SAME = [*guards(), "instance-", "buyer-", "etcd", "Redis", "Locust", "English", "ms", "SIGSTOP", "UTC", ".json"]
SAME += ["fencing token", "create revision", "make up", "docker compose --profile locust up", "reports/…/records/"]
SAME += ["Ada", "Bob"]
# Every text that can be seen, pointed at, or is read out; of code only the notes on it.
CODE = ".code > small, .code-lines code, .code-note i"
TEXTS = """(code) => [...document.querySelectorAll("body *:not(noscript, script)")]
  .filter((node) => !node.closest(code)).flatMap((node) => [
  ...[...node.childNodes].filter((each) => each.nodeType === 3).map((each) => each.data),
  node.title ?? "", node.getAttribute?.("aria-label") ?? "", node.getAttribute?.("aria-valuetext") ?? ""])
  .concat(document.title).map((each) => String(each).trim()).filter(Boolean)"""


def english(looker: Looker) -> list[str]:
    """Texts with words of another language."""
    found = set()
    for text in looker.page.evaluate(TEXTS, CODE):
        rest = re.sub("|".join(re.escape(each) for each in sorted(SAME, key=len, reverse=True)), "", text)
        if re.search("[A-Za-z]{2,}", rest):
            found.add(text)
    return sorted(found)


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
    assert english(looker) == []
    sales.finish()
    looker.wait_text("#word", "^准确$")
    looker.page.wait_for_selector(".story")  # the first rush explains itself
    assert english(looker) == []
    looker.page.keyboard.press("Escape")
    sales.rush("none", stock=60, buyers=100, hold_ms=10)
    sales.finish()
    looker.wait_text("#word", "^超卖 [0-9]+ 件$")
    assert english(looker) == []
    looker.page.click("#toggle-open")
    assert_readable(looker.page)
    looker.page.set_input_files("#file", DATA / "rush-none.json")
    looker.page.wait_for_selector("#close-record:visible")
    assert english(looker) == []
    looker.page.click("#language")
    looker.page.wait_for_selector("html[lang=en]")
    looker.wait_text("#word", "^OVERSOLD by ")
