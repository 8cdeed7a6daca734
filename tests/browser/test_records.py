"""Recorded runs: opened from a file or from this machine's reports, and scrubbed in time without any server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from loadtest.results.audit import audit
from loadtest.results.record import Record
from loadtest.stack.stack import Stack
from tests.browser.conftest import DATA, Look
from tests.support.looking import Looker

MARKUP = "<img src=x onerror=alert(1)><b>bold</b>"


def open_file(looker: Looker, path: Path) -> None:
    looker.page.set_input_files("#file", path)
    looker.page.wait_for_selector("#player:visible")


def scrub(looker: Looker, share: float) -> None:
    """Go to a moment of the run, 0 to 1."""
    looker("#scrub").evaluate(
        "(input, share) => { input.value = share * 1000; input.dispatchEvent(new Event('input')); }", share
    )


def test_a_recorded_oversell_shows_its_overlaps(look: Look) -> None:
    """Verdict, counters, and as many sections that were not alone as the audit finds."""
    record = Record.read(DATA / "rush-none.json")
    looker = look()
    open_file(looker, DATA / "rush-none.json")
    looker.wait_text("#word", f"^OVERSOLD by {record.verdict['oversold']}$")
    assert looker.figure("sold") == len(record.ledger)
    assert looker("#stock rect.over").count() == record.verdict["oversold"]
    overlapping = {section.order for pair in audit(record).overlaps.pairs for section in (pair.first, pair.second)}
    assert looker.text("#timeline-note").startswith(f"{len(record.sections)} sections")
    assert f": {len(overlapping)} not alone" in looker.text("#timeline-note")
    assert looker("#timeline .band").get_attribute("d")
    assert looker("#timeline .level.over").get_attribute("d")


def test_a_fault_and_buyers_that_gave_up(look: Look, tmp_path: Path) -> None:
    """Buyers that gave up are a figure and a sentence; events are drawn under the names of the lanes."""
    record = json.loads((DATA / "rush-etcd.json").read_text(encoding="utf-8"))
    verdict = "UNDERSOLD by 2, gave up: 20"
    record["stock"] += 2
    record["verdict"] |= {"verdict": verdict, "stock_left": 2, "outcomes": {"lock_timeout": 20}}
    times = [record["sections"][number]["entered_ms"] for number in (5, 10)]
    record["events"] = [{"at_ms": at_ms, "text": "an instance is frozen or thawed"} for at_ms in times]
    (tmp_path / "fault.json").write_text(json.dumps(record), encoding="utf-8")
    looker = look()
    open_file(looker, tmp_path / "fault.json")
    looker.wait_text("#word", f"^{verdict}$")
    assert "2 left. 20 buyers gave up waiting." in looker.text("#lead")
    assert looker.figure("gave-up") == 20
    painted = looker("#timeline :is(.event, .event-line, .lane-title)").evaluate_all(
        "all => all.map((each) => each.classList[0])"
    )
    assert painted == ["event-line", "event-line", "event", "event", "lane-title", "lane-title"]
    assert looker("#timeline .event").first.evaluate("text => getComputedStyle(text).paintOrder").startswith("stroke")


def test_time_is_scrubbed_without_a_server(look: Look) -> None:
    """Once the page is there, a record opens and runs back and forth without one more request."""
    record = Record.read(DATA / "rush-none.json")
    looker = look()
    looker.wait_text("#reports", "rush-none")
    asked: list[str] = []
    looker.page.on("request", lambda request: asked.append(request.url))
    open_file(looker, DATA / "rush-none.json")
    seen = []
    for share in (0.0, 0.3, 0.6, 1.0):
        scrub(looker, share)
        begin = looker.page.evaluate("() => Number(document.getElementById('scrub').value)")
        assert begin == share * 1000
        looker.page.wait_for_timeout(100)  # a frame or two
        seen.append((looker.figure("sold") or 0, looker.sections()))
    assert seen == sorted(seen)
    assert seen[0][0] == 0
    assert seen[1][0] < seen[-1][0]
    assert seen[-1] == (len(record.ledger), len(record.sections))
    assert asked == []


def test_a_record_is_played(look: Look) -> None:
    """Play runs to the end and stops; under the mutex nothing is shaded; the same file can be opened again."""
    looker = look(reduced_motion="reduce")
    open_file(looker, DATA / "rush-etcd.json")
    looker.page.click("#play")
    assert looker.text("#play") == "Pause"
    looker.page.wait_for_function("() => document.getElementById('play').textContent === 'Play'")
    assert looker("#scrub").input_value() == "1000"
    looker.wait_text("#word", "^EXACT$")
    looker.wait_text("#timeline-note", ": never two at once$")
    assert looker("#timeline .band").count() == 0
    looker.page.click("#close-record")
    looker.page.wait_for_selector("#player", state="hidden")
    open_file(looker, DATA / "rush-etcd.json")


def test_a_kept_record_is_opened_from_the_list(look: Look, stack: Stack) -> None:
    """Records of this machine, also those made while the page is open, can be chosen; the way back is the live sale."""
    looker = look()
    looker.wait_text("#reports", "rush-none")
    assert stack.board is not None
    newer = Path(stack.board.environment()["FLASHSALE_REPORTS"]) / "2026-01-02_00-00-00"
    try:
        shutil.copytree(DATA, newer / "records")
        for name, guard in (("2026-01-01_00-00-00", "none"), ("2026-01-02_00-00-00", "etcd")):
            looker.page.click("#toggle-open")
            looker.page.select_option("#reports", f"{name}/records/rush-{guard}.json")
            looker.page.wait_for_selector("#player:visible")
            looker.wait_text("#source", f"recorded: {guard}")
            looker.page.click("#close-record")
            looker.page.wait_for_selector("#source[data-state=live]")
            assert looker("#player").is_hidden()
    finally:
        shutil.rmtree(newer)


def test_each_attempt_of_an_order_is_described(look: Look, tmp_path: Path) -> None:
    """The arrow keys go through all critical sections, also where a guard tried several times under one order."""
    record = json.loads((DATA / "rush-none.json").read_text(encoding="utf-8"))
    record["sections"].sort(key=lambda section: section["entered_ms"])
    for section in record["sections"]:
        section["order"] = record["sections"][0]["order"]
    (tmp_path / "attempts.json").write_text(json.dumps(record), encoding="utf-8")
    looker = look()
    open_file(looker, tmp_path / "attempts.json")
    looker.wait_text("#timeline-note", f"^{len(record['sections'])} sections")
    told = []
    for _ in record["sections"]:
        looker("#timeline").press("ArrowRight")
        told.append(looker.text("#detail").split(" · ")[0])
    assert told == [section["buyer"] for section in record["sections"]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("no json", "is not JSON"),
        ('{"a": 1}', "is not a record"),
        ('{"format": "stock-flash-sale/record", "version": 2}', "version 2"),
        ('{"format": "stock-flash-sale/record", "version": 1}', "is incomplete"),
    ],
)
def test_what_is_no_record_is_refused_in_words(look: Look, tmp_path: Path, text: str, complaint: str) -> None:
    """The page says what is wrong with a file, and shows the live sale."""
    path = tmp_path / "record.json"
    path.write_text(text)
    looker = look()
    looker.page.set_input_files("#file", path)
    looker.wait_text("#open-said", complaint)
    assert looker("#source").get_attribute("data-state") == "live"


def poisoned(record: dict[str, Any]) -> dict[str, Any]:
    """A fault's record whose every name is markup."""
    for row in [*record["ledger"], *record["sections"], *record["answers"]]:
        row |= {"buyer": MARKUP, "instance": f"shop{MARKUP}"}
    record |= {"guard": MARKUP, "kind": "fault", "scenario": MARKUP}
    return record | {"events": [{"at_ms": record["sections"][5]["entered_ms"], "text": MARKUP}]}


def test_names_with_markup_are_text(look: Look, tmp_path: Path) -> None:
    """Buyers, instances, guards and events are shown letter by letter, wherever they appear."""
    path = tmp_path / "fault.json"
    path.write_text(json.dumps(poisoned(json.loads((DATA / "rush-none.json").read_text()))))
    looker = look()
    open_file(looker, path)
    looker.wait_text("#word", "OVERSOLD")
    looker("#timeline").press("End")
    looker.wait_text("#detail", "^<img src=x onerror")
    looker("#stock rect").first.hover()
    assert MARKUP in looker.text("#lead")
    assert MARKUP in (looker("#stock rect").first.text_content() or "")
    assert MARKUP in (looker("#timeline .event").text_content() or "")
    assert MARKUP in looker.text("#instances")
    assert looker.page.evaluate("() => document.querySelectorAll('img').length") == 0
