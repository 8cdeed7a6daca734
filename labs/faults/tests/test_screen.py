"""What a fault looks like: the picture while it is played, and the table at the end."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from app.contract.outcomes import Outcome
from labs.faults.screen import results_table, sale_picture
from loadtest.results.record import Expectation, Record, Sample
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
