"""Recorded runs: opened from a file or this machine's reports, scrubbed in time, and played in slow motion."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loadtest.report.build import write_report_page
from loadtest.results.record import Record
from loadtest.stack.stack import Stack
from tests.browser.conftest import DATA, Look
from tests.support.browser_fixtures import Open, Page
from tests.support.looking import Looker

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

SEEK = "(input, ms) => { input.value = ms; input.dispatchEvent(new Event('input')); }"
MARKUP = "<img src=x onerror=alert(1)><b>bold</b>"


def recorded(guard: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((DATA / f"rush-{guard}.json").read_text(encoding="utf-8"))
    return record


def choose(looker: Looker, text: str) -> None:
    looker.page.set_input_files(
        "#file", {"name": "record.json", "mimeType": "application/json", "buffer": text.encode()}
    )


def open_record(looker: Looker, record: dict[str, Any]) -> None:
    choose(looker, json.dumps(record))
    looker.page.wait_for_selector("#close-record:visible")


def test_a_record_is_scrubbed_in_time(look: Look) -> None:
    """At each moment of the slider, by keyboard too: orders, sections and what ledger and counter tell so far."""
    record, lost, looker = Record.read(DATA / "rush-none.json"), recorded("none"), look()
    lost["samples"][0]["stock"] += 1
    open_record(looker, lost)
    slider = looker("#scrub")
    end = float(slider.get_attribute("max") or 0)
    assert end == max(answer.answered_ms for answer in record.answers)
    looker.wait_text("#rate-note", f"^{record.verdict['requests_per_s']:.0f} sold; mean of the run so far$")
    for share, word in ((0.3, "8 items for sale"), (0.55, "1 lost update"), (0.99, "OVERSOLD by [0-9]+")):
        now = end * share
        slider.evaluate(SEEK, now)
        looker.wait_text("#clock", f"^{now:.0f} ms of {end:.0f} ms$")
        looker.wait_text("#word", f"^{word}$")
        orders = [order for order in record.ledger if order.at_ms <= now]
        assert looker.figure("sold") == len(orders) == sum(looker.instances().values())
        squares = [looker(f"#stock rect.{kind}").count() for kind in ("sold", "over")]
        assert squares == [min(len(orders), record.stock), max(0, len(orders) - record.stock)]
        assert looker.sections() == len([each for each in record.sections if each.entered_ms <= now])
    slider.press("Home")
    looker.wait_text("#clock", "^0 ms")
    looker.wait_text("#timeline-note", "^$")
    slider.press("End")
    looker.wait_text("#word", f"^{record.verdict['verdict']}$")
    assert looker.sections() == len(record.sections)


def test_a_kept_record_is_opened_from_the_list(look: Look, stack: Stack) -> None:
    """Records of this machine, also those made while the page is open, can be chosen; the way back is the live sale.

    The page says what is wrong with a file that is no record.
    """
    looker = look()
    assert stack.board is not None
    newer = Path(stack.board.environment()["FLASHSALE_REPORTS"]) / "2026-01-02_00-00-00"
    try:
        shutil.copytree(DATA, newer / "records")
        for name, guard in (("2026-01-01_00-00-00", "none"), ("2026-01-02_00-00-00", "etcd")):
            looker.page.click("#toggle-open")
            path = f"{name}/records/rush-{guard}.json"
            looker.page.wait_for_selector(f"#reports option[value='{path}']", state="attached")
            verdict = Record.read(DATA / f"rush-{guard}.json").verdict["verdict"]
            assert looker(f"#reports option[value='{path}']").inner_text().endswith(f" · {guard} · {verdict}")
            looker.page.select_option("#reports", path)
            looker.wait_text("#source", f"recorded: {guard}")
            looker.page.click("#close-record")
            looker.page.wait_for_selector("#source[data-state=live]")
            assert looker("#close-record").is_hidden()
    finally:
        shutil.rmtree(newer)
    other = '{"format": "stock-flash-sale/record", "version": 2}'
    for text, complaint in (("no json", "not valid JSON"), ('{"a": 1}', "is not a record"), (other, "version 2")):
        choose(looker, text)
        looker.wait_text("#open-said", complaint)
        assert looker("#source").get_attribute("data-state") == "live"


def test_names_with_markup_are_text(look: Look) -> None:
    """Buyers, instances, guards and events are shown letter by letter, wherever they appear."""
    record, looker = recorded("none"), look()
    for row in [*record["ledger"], *record["sections"], *record["answers"]]:
        row |= {"buyer": MARKUP, "instance": f"shop{MARKUP}"}
    event = {"at_ms": record["sections"][5]["entered_ms"], "text": MARKUP}
    open_record(looker, record | {"guard": MARKUP, "kind": "fault", "scenario": MARKUP, "events": [event]})
    looker.wait_text("#word", "OVERSOLD")
    looker("#timeline").press("End")
    looker.wait_text("#detail", "^<img src=x onerror")
    assert MARKUP in looker.text("#lead")
    assert MARKUP in (looker("#timeline .event").text_content() or "")
    assert MARKUP in looker.text("#instances")
    assert looker.page.evaluate("() => document.querySelectorAll('img').length") == 0


# Slow motion: a race that happened, played by keyboard from the record's file, in the report and on the board.


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
    record = recorded(guard)
    record["sections"] = record["sections"][:2]
    record["sections"][0] |= changes
    orders = [each["order"] for each in record["sections"] if each["outcome"] == "sold"]
    record["ledger"] = [each for each in record["ledger"] if each["order"] in orders]
    (path := directory / "record.json").write_text(json.dumps(record), encoding="utf-8")
    return path


def film(open_page: Open, record: Path) -> Page:
    """Its report from disk, in a browser without a network."""
    page = open_page(write_report_page(record, record.with_suffix(".html")).as_uri(), offline=True)
    page.focus("#player")
    return page


def test_a_race_is_played_by_keyboard(open_page: Open, tmp_path: Path) -> None:
    """Event by event: both read 8, both write 7, and the counter loses one; back again, and by space to the end."""
    page = film(open_page, kept(tmp_path, "none"))
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


def test_a_refused_write_has_its_mark(open_page: Open, tmp_path: Path) -> None:
    """Where a higher token was here before, the write is said to be refused, and no order is written."""
    page = film(open_page, kept(tmp_path, "etcd", outcome="lock_lost", cause="fenced_off"))
    page.click("[data-do=refused]")
    frame = shown(page)
    assert ": refused: a higher token was here before, line " in frame.sentence
    assert frame.line == "return stock.write(section, reading, fence=section.token)"
    assert (frame.counter, frame.orders) == ("8", "0")
    assert page.locator("[data-do=lost]").is_disabled()


def test_the_board_plays_what_is_opened_there(look: Look, tmp_path: Path) -> None:
    """A file is played over the board without asking a server, and closed by Escape; an old record has plain lines."""
    looker = look()
    old = recorded("none")
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
