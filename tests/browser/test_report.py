"""The report as a browser opens it from disk: it loads nothing, complains of nothing, and can be read everywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError

import pytest

from loadtest.language import CHINESE
from loadtest.report.build import write_report_page
from loadtest.results.record import Record
from loadtest.stack.stack import Stack
from tests.browser.conftest import DATA
from tests.loadtest.report.test_report import kept
from tests.support.browser_fixtures import Browser, Open
from tests.support.legible import LEAST_CONTRAST, TEXTS, assert_legible, english, on_every_screen
from tests.support.rushing import environment, locust_page
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

SMALLEST_IN_CHARTS = 10.5
# Text in a chart is scaled with it, and may be turned.
CHART_TEXTS = """
() => [...document.querySelectorAll("svg text")].filter((text) => text.getClientRects().length).map((text) => {
  const { a, b } = text.getScreenCTM();
  return [text.textContent, parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b)];
})
"""
# What leaves the window to a side, without a box around it that scrolls.
OUTSIDE = """
() => [...document.querySelectorAll("body *:not(.skip)")].filter((node) => !node.closest(".scroll")
  && (node.getBoundingClientRect().right > innerWidth + 1 || node.getBoundingClientRect().left < -1))
  .map((node) => `${node.tagName}.${node.className} ${node.textContent.slice(0, 40)}`)
"""
# Texts that begin to the left of the box that scrolls around them: no scrolling shows the beginning.
CUT_OFF = """
() => [...document.querySelectorAll(".scroll svg text")]
  .filter((text) => text.getBoundingClientRect().left < text.closest(".scroll").getBoundingClientRect().left - 0.5)
  .map((text) => text.textContent)
"""
FONT_SIZE = "node => parseFloat(getComputedStyle(node).fontSize)"
UNCOVERED = """() => document.querySelector(".ways").getBoundingClientRect().bottom
  <= document.querySelector("header").getBoundingClientRect().top"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("reports")
    rush, fault = kept(directory / "a"), directory / "fault.json"
    record = Record.read(DATA / "rush-none.json")
    record.kind, record.scenario = "fault", "pause-holder"
    record.verdict["findings"] = {"oversold": 18, "duplicates": 1, "contradicted": 1}
    record.sections = [replace(section, buyer=f"buyer-1111-{section.pid}") for section in record.sections]
    record.write(fault)
    sources = {"rush": rush, "fault": fault}
    return {name: write_report_page(file, directory / f"{name}.html") for name, file in sources.items()}


@pytest.mark.parametrize("name", ["rush", "fault"])
def test_it_can_be_read_on_every_screen(open_page: Open, reports: dict[str, Path], name: str) -> None:
    """In dark and light, on a projector and a phone: no text too small or too faint, nothing beside the window.

    Tab reaches the links, the boxes that scroll, and what can be opened; Enter opens it. Nothing is loaded.
    """
    page = open_page(reports[name].as_uri(), offline=True)
    for _ in on_every_screen(page):
        assert_legible(page)
        charts = page.evaluate(CHART_TEXTS)
        assert charts
        assert [(text, size) for text, size in charts if size < SMALLEST_IN_CHARTS] == []
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(CUT_OFF) == []
    reachable, reached = page.locator("a, summary, .scroll").count(), set()
    for _ in range(reachable):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => [...document.querySelectorAll('*')].indexOf(document.activeElement)"))
    assert len(reached) == reachable
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert name == "fault" or page.locator("details[open] table").first.is_visible()


def test_every_text_of_it_is_chinese(open_page: Open, tmp_path: Path) -> None:
    """Sentence, headings, axes, notes and player; commands and the names of programs stay as they are."""
    path = write_report_page(kept(tmp_path / "a"), language=CHINESE)
    page = open_page(path.as_uri())
    assert page.get_attribute("html", "lang") == "zh"
    assert page.inner_text("h1").startswith("所有守卫都兑现了承诺。")
    names = "".join(page.locator("footer, pre, code, dl").all_text_contents())
    assert [text for text in english(page, "EXACT", "OVERSOLD", "stock-flash-sale") if text not in names] == []


def test_locusts_page_shows_the_verdicts(chromium: Browser, stack: Stack) -> None:
    """Fill in the form, press Start: the tab has the verdicts, large and never covered; the report is a click away.

    The page's policy lets no other script run, and refuses nothing that the page needs.
    """
    with locust_page(environment(stack, FLASHSALE_SECTION_LOG=str(stack.section_log))) as shown:
        with pytest.raises(HTTPError, match="404"):  # there is no comparison yet
            shown.get("/report/")
        page, noticed = chromium.new_page(viewport={"width": 1280, "height": 720}), list[str]()
        page.on("console", lambda message: noticed.append(message.text))
        page.goto(shown.url)
        page.evaluate(
            "() => { const script = document.createElement('script'); script.text = 'window.evil = 1';"
            " document.body.append(script) }"
        )
        assert page.evaluate("window.evil") is None
        page.get_by_label("Number of users").fill("40")
        page.get_by_role("button", name="Custom parameters").click()
        page.get_by_label("Guards").select_option(["none", "redis-lua"])
        page.get_by_label("Stock").fill("12")
        page.get_by_label("Hold Ms").fill("2")
        page.get_by_role("button", name="Start").last.click()
        page.get_by_role("row", name="redis-lua").wait_for()  # the page opens on the verdicts
        assert page.get_by_role("tab", name="Statistics").is_visible()
        assert page.get_by_role("tab", name="Charts").is_hidden()
        cells = page.get_by_role("row", name="redis-lua").get_by_role("cell").all_inner_texts()
        assert cells[:4] == ["redis-lua", "EXACT", "kept", "12"]
        assert page.get_by_role("cell", name="EXACT").last.evaluate(FONT_SIZE) >= 16
        for scheme in ("dark", "light"):  # of Locust's own ground
            (other := chromium.new_page(color_scheme=scheme)).goto(shown.url)
            other.locator("td[data-judged=good]").first.wait_for()
            judged = ("EXACT", "kept", "OVERSOLD")
            contrasts = {text: contrast for text, _, contrast in other.evaluate(TEXTS) if text.startswith(judged)}
            assert len(contrasts) == len(judged)
            assert min(contrasts.values()) >= LEAST_CONTRAST
        page.set_viewport_size({"width": 1280, "height": 250})
        page.mouse.wheel(0, 1000)
        page.wait_for_function(UNCOVERED)
        assert len([each for each in noticed if "Content Security Policy" in each]) == 1, "the script above"
        wait_until(lambda: page.evaluate("async () => (await fetch('/report/')).ok"), timeout=60.0)
        page.get_by_role("link", name="Report").click()
        assert page.locator("h1").inner_text().startswith("Every promise was kept.")
        assert page.locator("svg").count() == 6
