"""`audit`: the command that judges records again."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

from app.contract.outcomes import Outcome
from labs.faults.audit_command import audit_records
from loadtest.results.answer import Answer
from loadtest.results.record import Point, Record

DATA = Path(__file__).parents[3] / "tests/data"


def judged(file: Path) -> Result:
    return CliRunner().invoke(audit_records, [str(file)])


def test_a_record_is_judged_and_what_is_wrong_is_listed() -> None:
    """Overlaps are listed with both buyers, and what each write lost, whose sales; long lists are cut, visibly."""
    exact, none = (judged(DATA / f"rush-{guard}.json") for guard in ("etcd", "none"))
    assert exact.exit_code == 0
    assert "sold 8 + stock 0 = 8 of 8, 0 lost updates" in exact.output
    assert exact.output.splitlines()[-1] == "  findings: none"
    assert none.exit_code == 0  # it promised nothing
    assert " pairs of critical sections open at once:" in none.output
    assert re.search(r"^    \S+ of buyer-\S+ .* wrote 7 over \d: \d lost up.*, sold to buyer-", none.output, re.M)
    assert re.search(r"^    and \d+ more$", none.output, re.MULTILINE)
    assert "findings: sold + stock is 27 of 8; " in none.output


def test_a_broken_promise_is_the_exit_code(tmp_path: Path) -> None:
    """What is missing, and what contradicts real time or the fence, is named with buyers and times."""
    record = Record.read(DATA / "rush-etcd.json")
    first, second = record.ledger[:2]
    answers = {answer.order: answer for answer in record.answers}
    late = answers[second.order].answered_ms + 50
    record.answers = [replace(each, sent_ms=late) if each.order == first.order else each for each in record.answers]
    record.answers.append(Answer("ada", Outcome.SOLD_OUT, "shop-a", sent_ms=0.0, answered_ms=1.0, status=409))
    record.answers.append(Answer("bob", Outcome.ERROR, "shop-a", sent_ms=2000.0, answered_ms=2001.0))
    writer, reader = (next(each for each in record.sections if each.order == entry.order) for entry in (first, second))
    read = replace(reader, outcome="unavailable", points=(Point("read", 1, 60.0),))
    record.sections = [read, replace(writer, commit_ms=70.0, left_ms=80.0)]
    record.write(tmp_path / "record.json")
    done = judged(tmp_path / "record.json")
    assert done.exit_code == 1
    lines = done.output.splitlines()
    for title, named in (
        ("  1 buyer without an answer:", ["bob"]),
        ("  1 order out of real-time order:", [first.buyer, f"{late:.1f} ms", second.buyer]),
        ('  1 answer "sold out" too early:', ["ada", "1.0 ms"]),
        ("  1 write past the fence:", [writer.buyer, "70.0 ms", reader.buyer, "60.0 ms"]),
    ):
        line = lines[lines.index(title) + 1]
        assert [word for word in named if word not in line] == []
    lost = record.ledger.pop()
    record.write(tmp_path / "record.json")
    assert (
        f"1 order acknowledged but missing:\n    {lost.order} of {lost.buyer}"
        in judged(tmp_path / "record.json").output
    )
