"""Records: gathered from three sources, written, kept in folders, read again or refused."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from app.board.sources.section_tail import Section, SectionTail
from click.testing import CliRunner

from app import clock
from app.contract.clock import Start
from app.sales.purchase import Outcome as ShopOutcome
from app.sales.purchase import Purchase, Receipt
from app.telemetry.section_log import SectionLog
from labs.faults.audit_command import audit_records
from loadtest.results.answer import Answer, Outcome
from loadtest.results.folders import new_report, point_latest, report_under_way
from loadtest.results.record import Event, Record, Sample
from loadtest.results.section_reader import SectionReader
from loadtest.results.verdict import Order
from tests.loadtest.results.test_audit import sale

BOOT = Start(boot_ns=0, epoch_ms=0.0)


def line(event: str, at: int, order: str, **members: Any) -> str:
    """A line as an instance writes it."""
    rest = (
        {"buyer": "ada", "guard": "etcd", "token": 7, "instance": "shop-a", "pid": 1, "thread": "t"}
        if event == "enter"
        else {"read_at": at - 30, "commit_at": at - 10, "outcome": "sold", "cause": None, "stock": None}
    )
    return json.dumps({"at": at, "event": event, "order": order, **rest, **members}) + "\n"


@pytest.mark.parametrize("make", [partial(SectionReader, start=BOOT), SectionTail], ids=["load test", "board"])
def test_the_reader_follows_files_as_they_grow(tmp_path: Path, make: Any) -> None:
    """Half a line waits for its other half; new files are found; old lines and a full file's last one are skipped."""
    file, full = tmp_path / "a.jsonl", '{"event": "full"}\n'
    garbage = full + "{broken\n7\n[]\n{}\n" if make is SectionTail else full
    file.write_text(garbage if make is SectionTail else line("enter", 1, "old"))
    reader = make(tmp_path)
    assert reader.poll() == []
    whole = line("leave", 100, "new")
    with file.open("a") as out:
        out.write(line("leave", 20, "old") + line("enter", 50, "new") + garbage + whole[:20])
        out.flush()
        (section,) = reader.poll()
        assert (section.order, section.outcome) == ("new", None)
        out.write(whole[20:])
    (section,) = reader.poll()
    assert section.outcome == "sold"
    (tmp_path / "b.jsonl").write_text(line("enter", 60, "new"))  # a retry of the same order in another process
    assert [section.outcome, reader.poll()[-1].outcome] == ["sold", None]
    assert [*make(None).poll(), *make(tmp_path / "missing").poll()] == []


def test_board_and_load_test_read_the_same_log(tmp_path: Path) -> None:
    """Of what the shop writes, both readers make the same critical sections: sold, refused, and still open."""
    reader, tail, log = SectionReader(tmp_path, BOOT), SectionTail(tmp_path), SectionLog(tmp_path, instance="shop-a")
    purchases = [Purchase(buyer="ada", guard="etcd", item=item, listener=log) for item in ("1", "1,2", "1")]
    for purchase, outcome in zip(purchases, (Outcome.SOLD, Outcome.SOLD_OUT, None), strict=True):
        purchase.enter(7)
        if outcome is not None:
            with purchase.timing("read"):
                purchase.decided = Receipt(ShopOutcome(outcome.value), "etcd", stock=4)
            purchase.leave(None)
    sections, theirs = reader.poll(), tail.poll()
    names = {each.name for each in fields(Section)} - {"number", "entered", "left"}
    assert [[getattr(each, name) for name in names] for each in sections] == [
        [getattr(each, name) for name in names] for each in theirs
    ]
    assert [(each.entered_ms, each.left_ms) for each in sections] == [
        tuple(at and BOOT.since_boot(at) for at in (each.entered, each.left)) for each in theirs
    ]
    assert [(each.outcome, each.stock, each.left_ms is None) for each in sections] == [
        ("sold", 4, False), ("sold_out", 4, False), (None, None, True),
    ]  # fmt: skip


SOLD = b'{"outcome": "sold", "order": "x", "instance": "shop-a", "token": 7}'


def test_three_clocks_become_one(tmp_path: Path) -> None:
    """Answers (time of day), ledger (milliseconds of it) and sections (boot time) count from the same moment."""
    start = Start(boot_ns=5_000_000_000, epoch_ms=1_000_000.0)
    reader = SectionReader(tmp_path, start)
    (tmp_path / "a.jsonl").write_text(
        line("enter", 4_999_999_999, "before")
        + (line("enter", 5_020_000_000, "cart") + line("leave", 5_025_000_000, "cart", stock={"1": 0, "2": 3}))
        + line("enter", 5_010_000_000, "x")
        + line("leave", 5_030_000_000, "x", stock=7, read_at=5_015_000_000, commit_at=5_025_000_000)
    )
    record = sale(1, 1)
    record.take(
        start,
        answers=[Answer.read("ada", "shop-a", 200, SOLD, sent=1000.005, received=1000.035)],
        ledger=[Order("x", "ada", "shop-a", "etcd", 7, 1_000_020)],
        sections=reader.poll(),
    )
    (answer,), (entry,), (section, cart) = record.answers, record.ledger, record.sections
    assert (answer.sent_ms, answer.answered_ms, answer.status, answer.token) == (5.0, 35.0, 200, 7)
    assert entry.at_ms == 20.0
    assert (section.order, section.stock) == ("x", 7)
    assert (section.entered_ms, section.read_ms, section.commit_ms, section.left_ms) == (10.0, 15.0, 25.0, 30.0)
    assert (cart.order, cart.entered_ms, cart.stock) == ("cart", 20.0, None)


def test_the_clock_is_the_one_of_the_section_log() -> None:
    """The record counts on the boot-time clock: milliseconds since its start are never negative, and rise."""
    start = Start.now()
    assert 0 <= start.elapsed_ms() <= start.since_boot(clock.now_ns())


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    """What was written is read again, every row of it; there is one line for each row."""
    record = sale(1, 1)
    record.take(
        BOOT,
        answers=[Answer("adä", Outcome.SOLD, "shop-a", "x", sent_ms=1.0, answered_ms=2.0)] * 3,
        ledger=[Order("x", "adä")],
        sections=[],
    )
    record.samples = [Sample(1.0, 300, 0, "shop-a", 3), Sample(2.0, None, None, None, None)]
    record.events = [Event(1.5, "shop-a is frozen"), Event(2, "shop-a is thawed")]
    path = tmp_path / "deep" / "record.json"
    record.write(path)
    assert Record.read(path) == record
    assert len(path.read_text().splitlines()) > 9


DATA = Path(__file__).parents[2] / "data"
RECORD = json.loads((DATA / "rush-none.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("stock", "x", "stock is 'x'"),
        ("stock", True, "stock is True"),
        ("sections", [{**RECORD["sections"][0], "pid": "x"}], "pid is 'x'"),
        ("answers", [{"buyer": "ada"}], "Answer.__init__() missing "),
        ("answers", [{**RECORD["answers"][0], "outcome": "gone"}], "'gone' is not a valid Outcome"),
        ("answers", [{**RECORD["answers"][0], "outcome": 7}], "outcome is 7"),
        ("verdict", {}, "_Judged.__init__() missing "),
        ("versions", {"python": 3}, "versions.python is 3"),
        ("events", [{"at_ms": float("nan"), "text": ""}], "at_ms is nan"),
        ("events", [{"at_ms": float("inf"), "text": ""}], "at_ms is inf"),
        ("stock", 10**400, "stock is 1000"),
    ],
)
def test_the_damage_is_named(tmp_path: Path, place: str, value: Any, message: str) -> None:
    """The first member that is missing, or has another type; of a command that is one line."""
    file = tmp_path / "record.json"
    file.write_text(json.dumps({**RECORD, place: value}), encoding="utf-8")
    done = CliRunner().invoke(audit_records, [str(file)])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {file} is damaged: {message}")
    assert done.output.count("\n") == 1


def test_what_a_newer_program_adds_is_left_out(tmp_path: Path) -> None:
    """Unknown members are no damage."""
    file = tmp_path / "record.json"
    file.write_text(json.dumps({**RECORD, "colour": "red"}), encoding="utf-8")
    assert Record.read(file) == Record.read(DATA / "rush-none.json")


def test_latest_leads_to_the_newest(tmp_path: Path) -> None:
    """Each report has its own directory, also within a second; `latest` is a relative link, so that they can move."""
    for _ in range(3):
        directory = new_report(tmp_path)
        point_latest(directory)
        assert (tmp_path / "latest").resolve() == directory.resolve()
    assert (tmp_path / "latest").readlink() == Path(directory.name)
    assert len(list(tmp_path.iterdir())) == 4


def ended_by(error: BaseException, reports: Path, *names: str) -> Path:
    """A report with files of these names, which ended with this error."""
    with suppress(type(error)), report_under_way(reports) as report:
        for name in names:
            (report / name).write_text("")
        raise error
    return report


@pytest.mark.parametrize("result", ["comparison.json", "bench.json", "records"])
def test_a_report_without_a_result_stays_if_it_says_why(tmp_path: Path, result: str) -> None:
    """An interrupted one is removed unless it has a result in JSON or records; one that failed, if empty."""
    assert ended_by(KeyboardInterrupt(), tmp_path, "locust.log", result).exists()
    assert not ended_by(KeyboardInterrupt(), tmp_path, "locust.log").exists()
    assert ended_by(ValueError(), tmp_path, "locust.log").exists()
    assert not ended_by(ValueError(), tmp_path).exists()
