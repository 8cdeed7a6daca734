"""Records: gathered from three sources, written, read again."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from app import clock
from app.board.sources.section_tail import SectionTail
from app.sales.purchase import Outcome as ShopOutcome
from app.sales.purchase import Purchase, Receipt
from app.telemetry.section_log import SectionLog
from loadtest.results.answer import Answer, Outcome
from loadtest.results.clock import Start
from loadtest.results.record import Event, Record, Sample
from loadtest.results.section_reader import LoggedSection, SectionReader
from loadtest.results.verdict import Order


def line(event: str, at: int, order: str, **members: Any) -> str:
    """A line as an instance writes it."""
    rest = (
        {"buyer": "ada", "guard": "etcd", "token": 7, "instance": "shop-a", "pid": 1, "thread": "t"}
        if event == "enter"
        else {"read_at": at - 30, "commit_at": at - 10, "outcome": "sold", "cause": None}
    )
    return json.dumps({"at": at, "event": event, "order": order, **rest, **members}) + "\n"


def a_record() -> Record:
    return Record(
        kind="rush",
        guard="etcd",
        promise="exact",
        stock=1,
        buyers=1,
        hold_ms=0,
        started="2030-01-01T00:00:00+00:00",
        versions={"python": "3"},
        verdict={"verdict": "EXACT", "orders": 1, "stock_left": 0, "lost_updates": 0},
    )


@pytest.mark.parametrize("make", [SectionReader, SectionTail])
def test_the_reader_follows_files_as_they_grow(tmp_path: Path, make: Any) -> None:
    """Half a line waits for its other half; new files are found; old lines are skipped, by the board garbage."""
    file, garbage = tmp_path / "a.jsonl", "{broken\n7\n[]\n{}\n" if make is SectionTail else ""
    file.write_text(garbage or line("enter", 1, "old"))
    reader = make(tmp_path)
    assert reader.poll() == []
    whole = line("leave", 100, "new")
    with file.open("a") as out:
        out.write(line("enter", 50, "new") + garbage + whole[:20])
        out.flush()
        (section,) = reader.poll()
        assert (section.order, section.entered, section.left) == ("new", 50, None)
        out.write(whole[20:])
    (section,) = reader.poll()
    assert (section.left, section.read, section.commit, section.outcome) == (100, 70, 90, "sold")
    (tmp_path / "b.jsonl").write_text(line("enter", 60, "new"))  # a retry of the same order in another process
    assert [section.left, reader.poll()[-1].left] == [100, None]


def test_board_and_load_test_read_the_same_log(tmp_path: Path) -> None:
    """Of what the shop writes, both readers make the same critical sections: sold, refused, and still open."""
    reader, tail, log = SectionReader(tmp_path), SectionTail(tmp_path), SectionLog(tmp_path, instance="shop-a")
    purchases = [Purchase(buyer="ada", guard="etcd", item=item, listener=log) for item in ("1", "1,2", "1")]
    for purchase, outcome in zip(purchases, (Outcome.SOLD, Outcome.SOLD_OUT, None), strict=True):
        purchase.enter(7)
        if outcome is not None:
            with purchase.timing("read"):
                purchase.decided = Receipt(ShopOutcome(outcome.value), "etcd", stock=4)
            purchase.leave(None)
    log.close()
    sections, theirs = reader.poll(), tail.poll()
    names = {each.name for each in fields(LoggedSection)} - {"stock"}
    assert [[getattr(each, name) for name in names] for each in sections] == [
        [getattr(each, name) for name in names] for each in theirs
    ]
    assert [(each.outcome, each.stock, each.left is None) for each in sections] == [
        ("sold", 4, False), ("sold_out", 4, False), (None, None, True),
    ]  # fmt: skip


def test_a_log_that_is_not_whole_is_told(tmp_path: Path) -> None:
    """The reader knows that a file was full; a stack that does not record, or has not yet, gives no sections."""
    reader = SectionReader(tmp_path)
    (tmp_path / "a.jsonl").write_text(line("leave", 1, "of another time") + '{"event": "full"}\n')
    assert reader.poll() == []
    assert reader.full
    for path in (None, tmp_path / "missing"):
        assert SectionReader(path).poll() == SectionTail(path).poll() == []


def test_three_clocks_become_one(tmp_path: Path) -> None:
    """Answers (time of day), ledger (milliseconds of it) and sections (boot time) count from the same moment."""
    start = Start(boot_ns=5_000_000_000, epoch_s=1000.0)
    reader = SectionReader(tmp_path)
    (tmp_path / "a.jsonl").write_text(
        line("enter", 4_999_999_999, "before")
        + (line("enter", 5_020_000_000, "cart") + line("leave", 5_025_000_000, "cart", stock={"1": 0, "2": 3}))
        + (line("enter", 5_010_000_000, "x") + line("leave", 5_030_000_000, "x", stock=7))
    )
    record = a_record()
    record.take(
        start,
        answers=[Answer("ada", Outcome.SOLD, "shop-a", "x", sent=1000.005, received=1000.035, status=200, token=7)],
        ledger=[Order("x", "ada", "shop-a", "etcd", 7, 1_000_020)],
        sections=reader.poll(),
    )
    (answer,), (entry,), (section, cart) = record.answers, record.ledger, record.sections
    assert (answer.sent_ms, answer.answered_ms, answer.status, answer.token) == (5.0, 35.0, 200, 7)
    assert entry.at_ms == 20.0
    assert (section.order, section.entered_ms, section.left_ms, section.stock) == ("x", 10.0, 30.0, 7)
    assert (cart.order, cart.entered_ms, cart.stock) == ("cart", 20.0, None)


def test_the_clock_is_the_one_of_the_section_log() -> None:
    """The record counts on the boot-time clock: milliseconds since its start are never negative, and rise."""
    start = Start.now()
    assert 0 <= start.elapsed_ms() <= start.since_boot(clock.now_ns())


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    """What was written is read again, every row of it; there is one line for each row."""
    record = a_record()
    record.take(
        Start(0, 0.0),
        answers=[Answer("adä", Outcome.SOLD, "shop-a", "x", sent=1.0, received=2.0)] * 3,
        ledger=[Order("x", "adä")],
        sections=[],
    )
    record.samples = [Sample(1.0, 300, 0, "shop-a", 3), Sample(2.0, None, None, None, None)]
    record.events = [Event(1.5, "shop-a is frozen")]
    path = tmp_path / "deep" / "record.json"
    record.write(path)
    assert Record.read(path) == record
    assert len(path.read_text().splitlines()) > 9
