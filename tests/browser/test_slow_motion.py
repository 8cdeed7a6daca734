"""Slow motion: a race that happened, played by keyboard from the record's file, in the report and on the board."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from loadtest.report.build import write_report_page
from tests.browser.conftest import DATA, Look
from tests.support.looking import PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow


class Frame(NamedTuple):
    """What the player shows at one event."""

    sentence: str
    line: str  # the text of the current purchase's line, without its comment
    counter: str
    orders: str


SHOWN = """
() => {
  const text = (selector) => document.querySelector(selector)?.textContent ?? "";
  const [counter, orders] = [...document.querySelectorAll(".slow dd")].map((each) => each.textContent);
  const code = document.querySelector(".code-lines .current code");
  return [text(".slow .sentence"), code?.textContent.trim() ?? "", counter, orders];
}
"""


def shown(page: Page) -> Frame:
    return Frame(*page.evaluate(SHOWN))


def kept(directory: Path, guard: str, **changes: str) -> Path:
    """The recorded rush of a guard with its first two purchases alone, of which the first has changes."""
    record: dict[str, Any] = json.loads((DATA / f"rush-{guard}.json").read_text(encoding="utf-8"))
    record["sections"] = record["sections"][:2]
    record["sections"][0] |= changes
    orders = [each["order"] for each in record["sections"] if each["outcome"] == "sold"]
    record["ledger"] = [each for each in record["ledger"] if each["order"] in orders]
    (path := directory / "record.json").write_text(json.dumps(record), encoding="utf-8")
    return path


@contextmanager
def film(chromium: Browser, record: Path) -> Iterator[Page]:
    """Its report from disk, in a browser without a network; it may not complain."""
    complaints: list[str] = []
    page = chromium.new_page(offline=True)
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.goto(write_report_page(record, record.with_suffix(".html")).as_uri())
    page.focus("#player")
    yield page
    page.close()
    assert complaints == []


def test_a_race_is_played_by_keyboard(chromium: Browser, tmp_path: Path) -> None:
    """Event by event: both read 8, both write 7, and the counter loses one; back again, and by space to the end."""
    with film(chromium, kept(tmp_path, "none")) as page:
        page.keyboard.press("Home")
        frames = [shown(page)]
        for _ in range(2 * 6):  # locked, read, think, write, wrote, left
            page.keyboard.press("ArrowRight")
            frames.append(shown(page))
        reads = [each for each in frames if ": read 8" in each.sentence]
        assert [each.line for each in reads] == ["reading = stock.read(section)"] * 2
        assert [each.counter for each in reads] == ["8", "8"]
        wrote = [each for each in frames if ": wrote 7" in each.sentence]
        assert [each.line for each in wrote] == ["return stock.write(section, reading)"] * 2
        assert [(each.counter, each.orders) for each in wrote] == [("7", "1"), ("7", "2")]
        assert ": wrote 7: sold, line " in wrote[0].sentence
        assert ": wrote 7 over 7, lost updates: 1, so far: 1, line " in wrote[1].sentence
        assert frames.index(reads[1]) < frames.index(wrote[0])
        assert {each.sentence.split(" at ")[0] for each in frames[1:]} == {"buyer-9", "buyer-17"}
        for before in reversed(frames[:-1]):
            page.keyboard.press("ArrowLeft")
            assert shown(page) == before
        page.click("[data-do=lost]")
        assert shown(page) == wrote[1]
        assert page.locator(".scrub-marks i.bad").count() == 1
        page.select_option("[aria-label=Speed]", "1")
        page.keyboard.press("Home")
        page.focus("#player")
        page.keyboard.press("Space")
        page.wait_for_function("() => document.querySelector('.slow .sentence').textContent.includes('leaves')")
        page.wait_for_selector("[data-do=play]:text-is('Play')")
        assert shown(page) == frames[-1]


def test_a_refused_write_has_its_mark(chromium: Browser, tmp_path: Path) -> None:
    """Where a higher token was here before, the write is said to be refused, and no order is written."""
    with film(chromium, kept(tmp_path, "etcd", outcome="lock_lost", cause="fenced_off")) as page:
        page.click("[data-do=refused]")
        frame = shown(page)
        assert ": refused: a higher token was here before, line " in frame.sentence
        assert frame.line == "return stock.write(section, reading, fence=section.token)"
        assert (frame.counter, frame.orders) == ("8", "0")
        assert page.locator("[data-do=lost]").is_disabled()


def test_the_board_plays_what_is_opened_there(look: Look, tmp_path: Path) -> None:
    """A file is played over the board without asking a server, and closed by Escape; an old record has plain lines."""
    looker = look()
    old = json.loads((DATA / "rush-none.json").read_text(encoding="utf-8"))
    for section in old["sections"]:
        section |= {"line": None, "points": [], "stock": None, "stock_read": None}
    (without_values := tmp_path / "old.json").write_text(json.dumps(old), encoding="utf-8")
    looker.page.click("#toggle-open")
    asked: list[str] = []
    looker.page.on("request", lambda request: asked.append(request.url))
    for path, end in ((DATA / "rush-none.json", ("7", "20")), (without_values, ("?", "20"))):
        looker.page.set_input_files("#file", path)
        looker.page.wait_for_selector("#close-record:visible")
        asked.clear()
        looker.page.click("#slow-motion")
        looker.page.keyboard.press("End")
        frame = shown(looker.page)
        assert ((frame.counter, frame.orders), asked) == (end, [])
        looker.page.keyboard.press("Escape")
        looker.page.wait_for_selector(".slow-dialog", state="detached")
        looker.page.click("#close-record")
        looker.page.click("#toggle-open")


TOLD = """
async (purchases) => {
  const { storyOf } = await import("/static/slow/explain.js");
  const { speaker } = await import("/static/slow/texts.js");
  const sections = purchases.map(([buyer, read, stock_read, wrote]) => {
    const points = [{ name: "read", at_ms: read }, { name: "wrote", at_ms: wrote }];
    const sold = { order: buyer, outcome: "sold", stock_read, stock: stock_read - 1, commit_ms: wrote };
    return { buyer, instance: "shop-a", entered_ms: read, line: 1, points, left_ms: wrote, ...sold };
  });
  const ledger = [...purchases].sort((a, b) => a[3] - b[3]).map(([order]) => ({ order }));
  const { sentences, people } = storyOf({ sections, ledger, stock: 300, source: { text: "" } }, speaker());
  return [people.map(({ buyer }) => buyer), sentences.at(-1)];
}
"""
# Of each purchase: the buyer, when it read what, and when it wrote one less.
LATE = [("a", 0, 300, 2), ("b", 1, 300, 9), ("c", 3, 299, 4)]
STORIES = [
    ([("a", 0, 300, 2), ("b", 1, 300, 3)], ["a", "b"], "Both wrote 299: one sale is missing."),
    (LATE, ["a", "b", "c"], "Both wrote 299, though Carl had written 298 in between: 2 sales are missing."),
    ([*LATE, ("d", 10, 299, 12), ("e", 11, 299, 13)], ["d", "e"], "Both wrote 298: one more sale is missing."),
]


def test_a_story_counts_as_its_reader_does(look: Look) -> None:
    """It shows two that lost one sale; where there are none, it names who wrote between the two."""
    looker = look()
    for purchases, people, sentence in STORIES:
        assert looker.page.evaluate(TOLD, purchases) == [people, sentence]
