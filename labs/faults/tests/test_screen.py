"""What a fault looks like: the picture while it is played, the table at the end, and its records judged again."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.contract.outcomes import Outcome
from labs.faults.audit_command import audit_records
from labs.faults.screen import results_table, sale_picture
from loadtest.results.answer import Answer
from loadtest.results.record import Expectation, Point, Record, Sample
from tests.support.terminal import printed

DATA = Path(__file__).parents[3] / "tests/data"


def played(scenario: str = "pause-holder", *, as_expected: bool | None = False) -> Record:
    """A sale of 302 of 300 items, with 2.5 s between two of them."""
    record = Record.read(DATA / "rush-etcd.json")
    sold = next(answer for answer in record.answers if answer.outcome is Outcome.SOLD)
    record.scenario, record.guard, record.stock = scenario, "etcd-unfenced", 300
    record.ledger = record.ledger[:1] * 302
    record.answers = [replace(sold, sent_ms=at, answered_ms=at) for at in (0.0, 2500.0)]
    record.verdict |= {"findings": {"oversold": 27}, "exact": False}
    record.expectation = Expectation("EXACT", as_expected, [])
    return record


def test_the_table_says_what_is_not_as_expected() -> None:
    """The longest row fits into 80 columns and says whether it is as expected; a scenario is named once."""
    rows = [played(), played(as_expected=True), played("delayed-write", as_expected=None)]
    text = printed(results_table(rows, plain=True))
    begin, end = ["etcd-unfenced", "EXACT"], ["302", "2", "2.5"]
    oversold = [*begin, "OVERSOLD", "by", "27", *end]
    expected = [
        ["pause-holder", *oversold, "NO"], [*oversold, "yes"], ["delayed-write", *begin, "no", "verdict", *end, "-"],
    ]  # fmt: skip
    assert [line.split() for line in text.splitlines()[-3:]] == expected
    assert text.isascii()


SAMPLE = Sample(1234.0, 288, 12, "shop-a", 10, 1, 2, ["shop-a"])  # shop-a has frozen while it held the lock


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (SAMPLE, [r"288 left \+ 12 sold = 300", "shop-a.*lease 1 s  FROZEN  holds  10 wait"]),
        (replace(SAMPLE, orders=35, waiters=0), [r"288 left \+ 35 sold = 323", "FROZEN  holds$"]),
        (Sample(1.0, None, None, None, None, dead=["shop-a"]), ["Redis is un", "shop-a.*DEAD", "etcd.*unavailable"]),
        (replace(SAMPLE, holder="redis-lock", waiters=None, frozen=[]), ["= 300", "redis-lock.*lease 1 s  holds$"]),
    ],
)
def test_the_room_sees_what_happens(seen: Sample, words: list[str]) -> None:
    """A line for each: sum, holder, frozen and dead shops; nothing is claimed of what cannot be seen; in 80 columns."""
    _, *lines = printed(sale_picture("pause-holder, etcd", seen, 300)).splitlines()
    assert [line for line, word in zip(lines, words, strict=True) if not re.search(word, line.rstrip())] == []
    assert max(map(len, lines)) <= 80


# `audit`: the command that judges records again.


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
