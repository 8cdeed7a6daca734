"""What was kept is read back, and what was changed since is refused in one line."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from loadtest.cli.audit import audit_records
from loadtest.cli.report import report
from loadtest.results.kept import KeptError
from loadtest.results.record import Record

DATA = Path(__file__).parents[2] / "data"
RECORD = json.loads((DATA / "rush-none.json").read_text(encoding="utf-8"))
STRANGE = [None, True, -1, "x", "", [], {}, 10**400, 1e308, float("nan"), float("inf"), [1], {"a": 1}, 5e-324]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each member and item below a JSON value, as its container and its key."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_record_is_shown_or_refused(tmp_path: Path, seed: int) -> None:
    """With any one value replaced, `report` and `audit` show the record, or refuse it in one line."""
    chosen = random.Random(seed)
    data = json.loads(json.dumps({**RECORD, **{name: RECORD[name][:5] for name in ("answers", "ledger", "sections")}}))
    container, key = chosen.choice(list(places(data)))
    container[key] = chosen.choice(STRANGE)
    file = tmp_path / "record.json"
    file.write_text(json.dumps(data), encoding="utf-8")
    for command in (report, audit_records):
        done = CliRunner().invoke(command, [str(file)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.output
        if done.output.startswith("Error: "):
            assert done.output.count("\n") == 1


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("stock", "x", "stock is 'x'"),
        ("stock", True, "stock is True"),
        ("sections", [{**RECORD["sections"][0], "pid": "x"}], "sections[0].pid is 'x'"),
        ("answers", [{"buyer": "ada"}], "answers[0] has no 'answered_ms'"),
        ("verdict", {}, "the file has no 'lost_updates'"),
        ("events", [{"at_ms": float("inf"), "text": ""}], "events[0].at_ms is inf"),
        ("versions", {"python": 3}, "versions.python is 3"),
    ],
)
def test_the_damage_is_named(tmp_path: Path, place: str, value: Any, message: str) -> None:
    """The first member that is missing, or has another type."""
    file = tmp_path / "record.json"
    file.write_text(json.dumps({**RECORD, place: value}), encoding="utf-8")
    with pytest.raises(KeptError, match="is damaged") as refused:
        Record.read(file)
    assert str(refused.value) == f"{file} is damaged: {message}"


def test_what_a_newer_program_adds_is_left_out(tmp_path: Path) -> None:
    """Unknown members are no damage; a newer version is refused."""
    file = tmp_path / "record.json"
    file.write_text(json.dumps({**RECORD, "colour": "red"}), encoding="utf-8")
    assert Record.read(file) == Record.read(DATA / "rush-none.json")
    file.write_text(json.dumps({**RECORD, "version": 2}), encoding="utf-8")
    with pytest.raises(KeptError, match="is not a stock-flash-sale/record of version 1"):
        Record.read(file)
