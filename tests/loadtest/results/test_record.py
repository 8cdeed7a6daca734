"""Records: gathered from three sources, written by the schemas of docs/formats.md, kept in folders, read again."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from app.contract.clock import Start
from app.contract.orders import Order
from app.contract.outcomes import Outcome
from loadtest.results.answer import Answer
from loadtest.results.folders import new_report, point_latest, report_under_way
from loadtest.results.record import FaultEvent, Record, Sample, SectionReader
from scripts import schemas
from tests.loadtest.results.test_audit import sale

BOOT = Start(boot_ns=0, epoch_ms=0.0)


def line(event: str, at: int, order: str, **members: Any) -> str:
    """A line as an instance writes it."""
    rest = (
        {"item": "1", "buyer": "ada", "guard": "etcd", "token": 7, "instance": "a", "pid": 1, "thread": "t", "line": 1}
        if event == "enter"
        else {"read_at": at - 30, "commit_at": at - 10, "outcome": "sold", "cause": None, "stock": None}
        | {"stock_read": None, "points": []}
    )
    return json.dumps({"at": at, "event": event, "order": order, **rest, **members}) + "\n"


SOLD = b'{"outcome": "sold", "order": "x", "instance": "shop-a", "token": 7}'


def test_three_clocks_become_one(tmp_path: Path) -> None:
    """Answers (time of day), ledger (milliseconds of it) and sections (boot time) count from the same moment."""
    start = Start(boot_ns=5_000_000_000, epoch_ms=1_000_000.0)
    reader = SectionReader(tmp_path, start)
    with (tmp_path / "a.jsonl").open("w") as log:
        log.write(line("enter", 4_999_999_999, "before") + line("enter", 5_010_000_000, "x"))
        log.flush()
        assert [each.left_ms for each in reader.poll()] == [None], "it is still inside"
        log.write(line("leave", 5_030_000_000, "x", stock=7, read_at=5_015_000_000, commit_at=5_025_000_000))
    record = sale(1, 1)
    record.take(
        start,
        answers=[Answer.read("ada", "shop-a", 200, SOLD, sent=1000.005, received=1000.035)],
        ledger=[Order("x", "ada", "shop-a", "etcd", 7, 1_000_020)],
        sections=reader.poll(),
    )
    (answer,), (entry,), (section,) = record.answers, record.ledger, record.sections
    assert (answer.sent_ms, answer.answered_ms, answer.status, answer.token) == (5.0, 35.0, 200, 7)
    assert entry.at_ms == 20.0
    assert (section.order, section.stock) == ("x", 7)
    assert (section.entered_ms, section.read_ms, section.commit_ms, section.left_ms) == (10.0, 15.0, 25.0, 30.0)


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
    record.events = [FaultEvent(1.5, "shop-a is frozen"), FaultEvent(2, "shop-a is thawed")]
    path = tmp_path / "deep" / "record.json"
    record.write(path)
    assert Record.read(path) == record
    assert path.read_text().count("\n{") == 8


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


# docs/formats.md: the schemas are those of the classes. Tests of what is written hold real files to them.


ROOT = Path(__file__).parents[3]
SCHEMAS = ROOT / "docs/schemas"


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_schemas_are_those_of_the_classes() -> None:
    """A member that was added to a class is in its schema: else run `python scripts/schemas.py`."""
    for name, text in schemas.generated().items():
        assert (SCHEMAS / name).read_text(encoding="utf-8") == text, name
