"""Recorded runs: opened from a file and scrubbed in time without any server, or from this machine's reports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from loadtest.results.record import Record
from loadtest.stack.stack import Stack
from tests.browser.conftest import DATA, Look
from tests.support.looking import Looker

pytestmark = pytest.mark.slow

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
    """Records of this machine, also those made while the page is open, can be chosen; the way back is the live sale."""
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


def test_what_is_no_record_is_refused_in_words(look: Look) -> None:
    """The page says what is wrong with a file, and shows the live sale."""
    looker = look()
    newer = '{"format": "stock-flash-sale/record", "version": 2}'
    for text, complaint in (("no json", "not valid JSON"), ('{"a": 1}', "is not a record"), (newer, "version 2")):
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
