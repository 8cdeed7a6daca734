"""Records of faults that have no verdict, as the report shows them."""

from __future__ import annotations

from pathlib import Path

from app.contract.verdict import FINDINGS, Kind
from loadtest.language import Message
from loadtest.report.pages import records_page
from loadtest.results.record import Expectation, Record
from tests.support.parsed import Page

DATA = Path(__file__).parents[3] / "tests/data"


def test_a_record_without_a_verdict_blames_no_guard(tmp_path: Path) -> None:
    """It is neither as expected nor not, also when it is read again; the page says what was late."""
    record = Record.read(DATA / "rush-etcd.json")
    record.kind, record.scenario = "fault", "pause-holder"
    record.verdict |= {"findings": {"too_slow": 0}, "kind": Kind.NONE.value, "exact": False, "kept_promise": None}
    record.expectation = Expectation("EXACT", None, [Message("the sale was not over")], fault="freeze the holder")
    record.write(tmp_path / "record.json")
    kept = Record.read(tmp_path / "record.json")
    page = Page(records_page([kept]))
    assert page.text("h1") == f"pause-holder, etcd: {FINDINGS['too_slow']}."
    assert page.row("pause-holder")[-1] == "no verdict"
    assert "the sale was not over" in page.text("details")
    assert Page(records_page([kept, kept])).text("h1") == "2 sales under faults: 2 without a verdict."
