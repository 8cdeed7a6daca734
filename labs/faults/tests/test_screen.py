"""What a fault looks like: the picture while it is played, and the table at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.contract.outcomes import Outcome
from labs.faults.monitor import HeldLease, Participant, TrialSnapshot
from labs.faults.screen import results_table, sale_picture
from loadtest.results.record import Expectation, Record
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


def snapshot(**changes: Any) -> TrialSnapshot:
    """A sale in which shop-a has frozen while it held the lock."""
    frozen = Participant("shop-a", "frozen", HeldLease(1, 2), holds=True, waiters=3)
    waiting = Participant("shop-b", "", HeldLease(2, 2), waiters=7)
    return replace(TrialSnapshot(1234.0, 288, 12, 300, None, [frozen, waiting], etcd=True), **changes)


@pytest.mark.parametrize(
    ("seen", "words", "holder", "waiters"),
    [
        (
            snapshot(),
            ["288 left + 12 sold = 300", "lease 1 s  FROZEN  holds  3 wait", "lease 2 s  7 wait"],
            "shop-a",
            10,
        ),
        (snapshot(orders=35), ["288 left + 35 sold = 323"], "shop-a", 10),
        (snapshot(stock=None, orders=None), ["Redis is unavailable"], "shop-a", 10),
        (snapshot(participants=[Participant("shop-a", "dead")], etcd=False), ["DEAD", "etcd"], None, None),
        (snapshot(redis_lock=HeldLease(1.25, 2)), ["held  1.2 s left"], "redis-lock", None),
    ],
)
def test_the_room_sees_what_happens(
    seen: TrialSnapshot, words: list[str], holder: str | None, waiters: int | None
) -> None:
    """Sum, leases, holder, waiters, frozen and dead shops; nothing is claimed of what cannot be seen; in 80 columns."""
    assert (seen.holder, seen.waiters) == (holder, waiters)
    lines = printed(sale_picture("pause-holder, etcd", seen)).splitlines()
    assert all(any(word in line for line in lines) for word in words)
    assert max(map(len, lines)) <= 80
    assert len(lines) == 2 + len(seen.participants) + (seen.redis_lock is not None) + (not seen.etcd)
