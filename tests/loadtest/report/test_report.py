"""The report: what it shows is what was kept, under any names, on any platform, without a network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from loadtest.cli.report import report
from loadtest.language import Message
from loadtest.report.build import write_report_page
from loadtest.report.charts.lanes import bars
from loadtest.results.audit import audit
from loadtest.results.comparison import Comparison, GuardRun, Percentiles
from loadtest.results.folders import new_report, point_latest
from loadtest.results.json_files import restore
from loadtest.results.record import Expectation, FaultEvent, Record
from tests.loadtest.results.test_audit import sale, section
from tests.support.parsed import Page

DATA = Path(__file__).parents[2] / "data"
RECORD = json.loads((DATA / "rush-none.json").read_text(encoding="utf-8"))
GUARDS = ("none", "etcd")


def kept(directory: Path, *, slower: float = 1.0) -> Path:
    """The report of a small comparison, without its page; its wall times may be `slower`."""
    records = [Record.read(DATA / f"rush-{guard}.json") for guard in GUARDS]
    runs = [restore(GuardRun, record.verdict, directory) for record in records]
    runs = [replace(run, wall_s=round(run.wall_s * slower, 3)) for run in runs]
    first = records[0]
    machine = {"system": "Linux", "machine": "x86_64", "cpus": 2, "processor": "Abacus 9"}
    sizes = {"stock": first.stock, "buyers": first.buyers or 0, "hold_ms": first.hold_ms or 0}
    made = Comparison(**sizes, started=first.started, versions=first.versions, runs=runs, machine=machine)
    made.write(directory / "comparison.json")
    for record in records:
        record.write(directory / "records" / f"{record.guard}.json")
    return directory


def page_of(kept: Path) -> Page:
    return Page.read(write_report_page(kept, kept.parent / "page.html"))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = kept(tmp_path_factory.mktemp("report") / "a")
    write_report_page(directory)
    return directory


@pytest.fixture(scope="module")
def page(comparison: Path) -> Page:
    return Page.read(comparison / "index.html")


def make(*words: object) -> Result:
    return CliRunner().invoke(report, [str(word) for word in words])


def test_it_shows_the_comparison(page: Page, comparison: Path) -> None:
    """The sentence is the heading; each guard has a row with the figures of comparison.json; nothing drifts."""
    told = Comparison.read(comparison / "comparison.json")
    assert page.text("h1") == told.sentence
    assert "all at once, on 8 items, under each of 2 guards, with 400 ms of think time inside. " in page.text("p")
    for run in told.runs:
        row = page.row(run.guard)
        assert row[2:4] == [str(run.orders), run.verdict]
        assert row[5] == str(run.lost_updates)
        assert row[8] == f"{run.wall_s:.2f}"
        assert row[10] == f"{run.purchase_ms.p50:,.0f} / {run.purchase_ms.p99:,.0f}"
    for text in ("Abacus 9", "2 CPUs", *told.versions.values()):
        assert text in page.text()
    options = f"--guard none --guard etcd --buyers {told.buyers} --stock {told.stock} --hold-ms {told.hold_ms}"
    assert page.text("pre") == f'make demo ARGS="{options}"'
    for target in [attributes["href"] or "" for tag, attributes in page.tags if tag == "a"]:
        assert target.startswith("#") or (comparison / target).exists()


def test_it_draws_what_was_recorded(page: Page) -> None:
    """Sales over time, waiting times and overlaps are drawn as recorded, and every drawing has its meaning in words."""
    named = [attributes["aria-label"] for _, attributes in page.tags if attributes.get("role") == "img"]
    assert len(named) == len(page.charts)
    assert all(named)
    sold, waited = page.charts[:2], page.charts[2]
    for guard, texts in zip(GUARDS, sold, strict=True):
        record = Record.read(DATA / f"rush-{guard}.json")
        found = audit(record)
        assert str(len(record.ledger)) in texts
        assert f"sold of {record.stock}" in texts
        took = Percentiles.of(answer.answered_ms - answer.sent_ms for answer in record.answers)
        assert {guard, f"{took.p50:,.0f} / {took.p99:,.0f}"} <= {*waited}
        pairs = f"{found.overlaps.count} pairs were open at the same time" if found.overlaps.count else "none were open"
        assert f"{len(record.sections)} critical sections, {pairs}" in page.text("figcaption")


def test_the_first_lost_update_is_magnified(tmp_path: Path) -> None:
    """Its buyers are named, with what they read and wrote, and when; the page counts as many as the verdict."""
    record = Record.read(file := DATA / "rush-none.json")
    page, first = Page.read(write_report_page(file, tmp_path / "page.html")), audit(record).losses.losing[0]
    assert first.after is not None
    assert first.section is not None
    assert page.row(first.entry.buyer)[5] == f"{first.at_ms:.1f}"
    assert page.row(first.entry.buyer)[-2:] == [str(first.after + 1), str(first.after)]
    drawn = [texts for texts in page.charts if first.entry.buyer in texts]
    for buyer in [each.buyer for each in first.overwrote]:
        assert any(buyer in texts for texts in drawn)
    told = f"At {first.at_ms:.1f} ms, {first.entry.buyer} wrote {first.after}, because it had read {first.after + 1}."
    assert f"{told} Meanwhile the counter had come down to {first.before}: " in page.text("p")
    assert f" open at the same time, {record.verdict['lost_updates']} lost updates" in page.text("summary")
    assert "harmless" not in page.text()


def test_a_recording_of_the_board_is_a_report(tmp_path: Path) -> None:
    """It has the same format without what only buyers know, and may be of a sale without a purchase."""
    record = json.loads((DATA / "rush-none.json").read_text(encoding="utf-8"))
    members = "findings", "kind", "exact", "orders", "stock_left", "lost_updates"
    judged = {name: record["verdict"][name] for name in members}
    record |= {"buyers": None, "hold_ms": None, "versions": {}, "answers": [], "verdict": judged}
    for each in record["sections"]:
        del each["cause"]
    file = tmp_path / "board.json"
    file.write_text(json.dumps(record), encoding="utf-8")
    assert page_of(file).text("h1") == "rush, none: OVERSOLD by 12"
    judged |= {"findings": {"exact": 0}, "kind": "exact", "exact": True, "orders": 0}
    file.write_text(json.dumps(record | {"guard": None, "ledger": [], "sections": []}), encoding="utf-8")
    page = page_of(file)
    assert page.text("h1") == "rush, no guard: EXACT"
    assert "critical sections," not in page.text(), "it does not say that none were open at once"
    assert "set FLASHSALE_SECTION_LOG" in page.text()


def test_it_needs_no_network(page: Page, comparison: Path) -> None:
    """The policy forbids to load anything, and any other script; no id stands there twice."""
    source = (comparison / "index.html").read_text(encoding="utf-8")
    (script,) = re.findall(r'<script type="module">(.*?)</script>', source, re.DOTALL)
    player = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert sum(tag == "script" for tag, _ in page.tags) == 2, "the player, and its data"
    policies = [attributes["content"] for _, attributes in page.tags if "http-equiv" in attributes]
    assert policies == [f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{player}'"]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_records_alone_are_a_report_of_faults(tmp_path: Path) -> None:
    """Expected and observed stand side by side, with what was done and when; the headline counts what is otherwise."""
    record = Record.read(DATA / "rush-etcd.json")
    record.kind, record.scenario = "fault", "pause-holder"
    record.events = [FaultEvent(120.0, "{shop} is frozen", {"shop": "shop-a"}), FaultEvent(121.0, "shop-a is thawed")]
    record.expectation = Expectation("breaks", False, [Message("it did not break")], fault="freeze the holder")
    for number in (1, 2):
        record.write(tmp_path / "faults/records" / f"pause-holder-{number}.json")
    page = page_of(tmp_path / "faults")
    assert page.text("h1") == "2 sales under faults: 2 not as expected."
    one = page_of(tmp_path / "faults/records/pause-holder-1.json")
    assert one.text("h1") == f"pause-holder, etcd: {record.verdict['verdict']}, not as expected."
    assert page.row("pause-holder")[1:4] == ["etcd", "breaks", "EXACT"]
    assert page.row("pause-holder")[-1] == "NO"
    assert "0.12 s shop-a is frozen" in page.text("ol")
    assert "it did not break" in page.text("details")
    assert "1, 2" in page.charts[0]
    assert page.text("pre") == 'make faults ARGS="pause-holder --guard etcd"'


def test_without_arguments_the_latest_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest report gets its page, and the line says where; without one, it says what is missing."""
    monkeypatch.chdir(tmp_path)
    assert make().output == "Error: there is no report yet: make demo\n"
    directory = new_report(Path("reports"))
    assert "has neither comparison.json nor records/" in make(directory).output
    point_latest(kept(directory))
    done = make()
    assert (done.exit_code, done.output) == (0, "Report: reports/latest/index.html\n")
    assert (directory / "index.html").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read: "),
        ("\udcff", "cannot be read: "),
        ("[]", "is not one of these: "),
        ('{"runs": [{"guard": "etcd"}]}', "is damaged: "),
        ('{"runs": [], "stock": 3, "buyers": 5, "started": "now", "versions": {}}', "is damaged: "),
        ('{"format": "stock-flash-sale/record", "version": 9}', "is not a stock-flash-sale/record of version 1"),
        (json.dumps({**RECORD, "stock": True}), "is damaged: Expected `int`, got `bool` - at `$.stock`"),
        (json.dumps({**RECORD, "verdict": {}}), "is damaged: Object missing required field `"),
    ],
)
def test_foreign_and_broken_files_are_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    """A file that is not a result, or damaged, is named with the first thing that is wrong; no page is written."""
    file = tmp_path / "result.json"
    file.write_bytes(content.encode(errors="surrogateescape"))
    done = make(file)
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {file} {message}")
    assert done.output.count("\n") == 1
    assert list(tmp_path.iterdir()) == [file]


def test_bars_lie_in_lanes_and_holds_are_one() -> None:
    """Open sections have different lanes, a group is one bar, and a dead process's ends where it was last seen."""
    record, hold = sale(4, 4), {"instance": "b", "token": [7, 1]}
    record.sections = [
        *(section(n, 5.0 * n, 5.0 * n + 10, instance="a", token=None) for n in range(3)),
        section(3, 30.0, 40.0, **hold),
        section(4, 31.0, 42.0, **hold, outcome="sold_out"),
        section(5, 50.0, None, instance="c", pid=1, outcome=None),
        section(6, 52.0, 56.0, instance="c", pid=1),
        section(7, 80.0, 90.0, instance="c", pid=2),
    ]
    found = [(bar.instance, bar.lane, bar.from_ms, bar.to_ms, bar.sold, bar.ended) for bar in bars(record)]
    assert found == [
        *(("a", lane, 5.0 * n, 5.0 * n + 10, True, True) for n, lane in enumerate((0, 1, 0))),
        ("b", 0, 30.0, 42.0, True, True),
        ("c", 0, 50.0, 56.0, False, False),
        ("c", 1, 52.0, 56.0, True, True),
        ("c", 0, 80.0, 90.0, True, True),
    ]
