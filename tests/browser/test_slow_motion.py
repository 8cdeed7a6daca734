"""Slow motion: a race that happened, played by keyboard from the record's file, in the report and on the board."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from flask import Flask

from app.contract.clock import Start, utc_now
from app.contract.orders import Order
from app.sales.sale import Sale
from loadtest.report.build import write_report_page
from loadtest.results.answer import Answer
from loadtest.results.record import Record, SectionReader
from tests.browser.conftest import DATA, Look
from tests.support.looking import PATIENCE_MS
from tests.support.shops import at_once, buy, ledger
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

Make = Callable[..., Flask]
Film = Callable[[Path], "Page"]


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


@pytest.fixture
def film(chromium: Browser) -> Iterator[Film]:
    """Opens a report from disk, in a browser without a network; it may not complain."""
    complaints: list[str] = []
    context = chromium.new_context(offline=True)

    def film(path: Path) -> Page:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.goto(path.as_uri())
        page.focus("#player")
        return page

    yield film
    context.close()
    assert complaints == []


@pytest.fixture
def record(make: Make, sale: Sale, tmp_path: Path) -> Callable[..., Path]:
    """Sells at two instances at once while `meanwhile` happens, and writes the record of it."""

    def record(guard: str, *, hold_ms: int, meanwhile: Callable[[], object] = lambda: None) -> Path:
        log = tmp_path / "log"
        shops = [make(instance=name, section_log=log) for name in ("shop-a", "shop-b")]
        for shop in shops:
            shop.test_client().get("/stock")
        start, started, reader = Start.now(), utc_now(), SectionReader(log, Start.now())
        buyers = ("ada", "bob")

        def act(number: int) -> None:
            if number == len(buyers):
                wait_until(lambda: any(log.glob("*.jsonl")))
                meanwhile()
            else:
                buy(shops[number], guard, buyer=buyers[number], hold_ms=hold_ms)

        at_once(len(buyers) + 1, act)
        now = sale.snapshot()
        verdict = now.judge()
        made = Record(
            "rush", guard, "none", 10, 2, hold_ms, started, {},
            {"findings": verdict.findings, "kind": verdict.kind.value, "exact": verdict.exact, "orders": now.orders,
             "stock_left": now.stock, "lost_updates": verdict.lost_updates},
        )  # fmt: skip
        answers: list[Answer] = []
        made.take(start, answers=answers, ledger=(Order(**each) for each in ledger(sale)), sections=reader.poll())
        made.source = reader.source(guard)
        made.write(tmp_path / "record.json")
        return tmp_path / "record.json"

    return record


def test_a_race_is_played_by_keyboard(film: Film, record: Callable[..., Path]) -> None:
    """Event by event: both read 10, both write 9, and the counter loses one; back again, and by space to the end."""
    kept = record("none", hold_ms=400)
    page = film(write_report_page(kept, kept.with_suffix(".html")))
    page.keyboard.press("Home")
    frames = [shown(page)]
    count = len(json.loads(kept.read_text())["sections"]) * 6  # locked, read, think, write, wrote, left
    for _ in range(count):
        page.keyboard.press("ArrowRight")
        frames.append(shown(page))
    reads = [each for each in frames if ": read 10" in each.sentence]
    assert [each.line for each in reads] == ["reading = stock.read(section)"] * 2
    assert [each.counter for each in reads] == ["10", "10"]
    wrote = [each for each in frames if ": wrote 9" in each.sentence]
    assert [each.line for each in wrote] == ["return stock.write(section, reading)"] * 2
    assert [(each.counter, each.orders) for each in wrote] == [("9", "1"), ("9", "2")]
    assert ": wrote 9: sold, line " in wrote[0].sentence
    assert ": wrote 9 over 9, lost updates: 1, so far: 1, line " in wrote[1].sentence
    assert frames.index(reads[1]) < frames.index(wrote[0])
    assert {each.sentence.split(":")[0] for each in frames[1:]} == {"ada at shop-a", "bob at shop-b"}
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


def test_a_refused_write_has_its_mark(film: Film, record: Callable[..., Path], sale: Sale) -> None:
    """A higher token came while the holder was thinking: its late write is refused, and no order is written."""
    fence = sale.keys_of["1"].fence

    def overtake() -> None:
        wait_until(lambda: int(sale.client.get(fence) or 0) > 0)  # the holder has read
        sale.client.set(fence, f"{2**62:020d}")

    kept = record("etcd", hold_ms=400, meanwhile=overtake)
    page = film(write_report_page(kept, kept.with_suffix(".html")))
    page.click("[data-do=refused]")
    frame = shown(page)
    assert ": refused: a higher token was here before, line " in frame.sentence
    assert frame.line == "return stock.write(section, reading, fence=section.token)"
    assert (frame.counter, frame.orders) == ("10", "0")
    assert page.locator("[data-do=lost]").is_disabled()


def test_the_board_plays_what_is_opened_there(look: Look, record: Callable[..., Path]) -> None:
    """A file is played over the board without asking a server, and closed by Escape; an old record has plain lines."""
    kept, looker = record("none", hold_ms=400), look()
    old = json.loads((DATA / "rush-none.json").read_text(encoding="utf-8"))
    for section in old["sections"]:
        section |= {"line": None, "points": [], "stock": None, "stock_read": None}
    (without_values := kept.with_name("old.json")).write_text(json.dumps(old), encoding="utf-8")
    looker.page.click("#toggle-open")
    asked: list[str] = []
    looker.page.on("request", lambda request: asked.append(request.url))
    for path, end in ((kept, ("9", "2")), (DATA / "rush-none.json", ("7", "20")), (without_values, ("?", "20"))):
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
STORIES = {
    "one missing": ([("a", 0, 300, 2), ("b", 1, 300, 3)], ["a", "b"], "Both wrote 299: one sale is missing."),
    "one between": (
        LATE,
        ["a", "b", "c"],
        "Both wrote 299, though Carl had written 298 in between: 2 sales are missing.",
    ),
    "a later pair": (
        [*LATE, ("d", 10, 299, 12), ("e", 11, 299, 13)],
        ["d", "e"],
        "Both wrote 298: one more sale is missing.",
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_story_counts_as_its_reader_does(look: Look, story: str) -> None:
    """It shows two that lost one sale; where there are none, it names who wrote between the two."""
    purchases, people, sentence = STORIES[story]
    assert look().page.evaluate(TOLD, purchases) == [people, sentence]
