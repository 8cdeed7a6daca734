"""The verdict, how an answer is read, and the comparison: figures of a run, the sentence, and its exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.contract.orders import Order
from app.contract.outcomes import Outcome
from app.contract.verdict import Kind
from loadtest.results.answer import Answer
from loadtest.results.audit import Audit
from loadtest.results.comparison import Comparison, GuardRun, Percentiles
from loadtest.terminal import cells


def sold(number: int) -> Answer:
    return Answer(f"buyer-{number}", Outcome.SOLD, "shop", f"order-{number}")


def refused(number: int, outcome: Outcome = Outcome.SOLD_OUT) -> Answer:
    """The answer to a buyer without an order; an error is in doubt."""
    return Answer(f"buyer-{number}", outcome, "shop", in_doubt=outcome is Outcome.ERROR)


def entry(number: int) -> Order:
    return Order(f"order-{number}", f"buyer-{number}")


def answered(orders: int, **others: int) -> list[Answer]:
    """So many were sold an item, and `others` by the name of their outcome."""
    told = [*map(sold, range(orders))]
    for outcome, count in others.items():
        told += [refused(len(told) + number, Outcome(outcome)) for number in range(count)]
    return told


def rush(
    *answers: Answer, guard: str = "etcd", promise: str = "exact", stock: int = 2, left: int | None = None,
    orders: int = 2, foreign: int = 0, went: int = 0, **others: Any,
) -> GuardRun:  # fmt: skip
    """A rush in which so many were sold an item, others were not, and more got these answers."""
    told = [*answered(orders, **others), *answers]
    ledger = [*map(entry, range(orders)), *(Order(f"foreign-{n}", "anonymous") for n in range(foreign))]
    left = max(0, stock - len(ledger)) if left is None else left
    verdict = Audit(stock, left, ledger, told).verdict(went)
    return GuardRun.of(guard, promise, verdict, stock_left=left, answers=told)


EXAMPLES = json.loads((Path(__file__).parents[2] / "data/verdicts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["what"])
def test_the_verdict_is_that_of_shop_and_board(example: dict[str, Any]) -> None:
    """Each shared example has its verdict, word by word."""
    stock, left, orders = (example[name] for name in ("stock", "stock_left", "sold"))
    others = {"sold_out": example["sold_out"], "lock_timeout": example["gave_up"], "unavailable": example["failed"]}
    verdict = Audit(stock, left, [*map(entry, range(orders))], answered(orders, **others)).verdict()
    assert verdict.sentence == example["verdict"]
    assert verdict.lost_updates == example["lost_updates"]
    assert verdict.exact == (example["verdict"] == "EXACT")


NOTHING_SOLD: dict[str, str] = {
    "lock_timeout": "gave up: 1000",
    "sold_out": "1000 told sold out too early",
    "error": "1000 without an answer",
    "lock_lost": "1000 refused",
    "unavailable": "1000 refused",
}
# What was left of 10 items after 8 orders, what others were told, and whether it was for want of time alone.
UNSOLD: list[tuple[int, dict[str, Any], bool]] = [
    (2, {"lock_timeout": 2}, True),
    (2, {"lock_timeout": 5}, True),
    (2, {"lock_timeout": 1, "unavailable": 1}, False),
    (3, {"lock_timeout": 5}, False),  # an update was lost as well
    (0, {"lock_timeout": 1}, False),  # an item vanished as well
    (2, {"sold_out": 5}, False),
]


def test_selling_nothing_is_not_praised() -> None:
    """0 of 1 sold to 1000 buyers is UNDERSOLD, however they were refused, and what they were told is counted.

    Buyers that gave up explain what was not sold, unless something else is wrong too.
    """
    for outcome, why in NOTHING_SOLD.items():
        told: dict[str, Any] = {outcome: 1000}
        assert rush(stock=1, orders=0, **told).verdict == f"UNDERSOLD by 1, {why}"
        assert rush(stock=3000, orders=0, **told).undersold == 1000
    for left, others, alone in UNSOLD:
        assert rush(stock=10, left=left, orders=8, **others).ran_out_of_time == alone, (left, others)


@pytest.mark.parametrize(("stock", "left"), [(2, 0), (2, 1), (3, 0)])
def test_foreign_orders_leave_nothing_to_judge(stock: int, left: int) -> None:
    """With purchases from outside the rush there is neither EXACT nor a flaw to blame a guard for."""
    ledger = [entry(0), Order("a", "anonymous"), Order("b", "another")]
    verdict = Audit(stock, left, ledger, [sold(0), refused(1)]).verdict()
    assert verdict.foreign == 2
    assert verdict.in_doubt == verdict.contradicted == 0
    assert verdict.sentence == "disturbed by other purchases: no verdict"
    assert not verdict.exact


def read(status: int, body: bytes | None) -> Answer:
    """The answer of the shop at http://shop to buyer-0."""
    return Answer.read("buyer-0", "http://shop", status, body, sent=1.0, received=1.5)


NONSENSE = [None, b"", b"<html>", b"[]", b'{"outcome": "free beer"}']
SOLD = {"outcome": "sold", "order": "x", "instance": "shop-a", "waited_ms": 3.5, "held_ms": 0.5, "token": 7}


def test_an_answer_is_read() -> None:
    """Order, instance, token and times are taken over; the buyer has its own stopwatch.

    Without an answer, or with nonsense, the purchase may have been made; an `unavailable` may have been a sale.
    """
    answer = read(200, json.dumps(SOLD).encode())
    assert answer == Answer("buyer-0", Outcome.SOLD, "shop-a", "x", False, 1000.0, 1500.0, 3.5, 0.5, 200, 7)
    assert answer.purchase_ms == 500.0
    for status, body, outcome, in_doubt in [
        *((status, body, Outcome.ERROR, True) for status in (0, 200, 500, 502) for body in NONSENSE),
        (400, b'{"status": 400, "detail": "no buyer"}', Outcome.ERROR, False),  # for its form, so nothing was bought
        (503, b'{"outcome": "unavailable", "in_doubt": true}', Outcome.UNAVAILABLE, True),
        (503, b'{"outcome": "unavailable", "in_doubt": false}', Outcome.UNAVAILABLE, False),
    ]:
        answer = read(status, body)
        assert answer.outcome is outcome
        assert answer.in_doubt is in_doubt
        assert answer.status == status
        assert answer.instance == "http://shop"
        assert answer.detail == "no buyer" * (status == 400)


WENT = [refused(number, Outcome.ERROR) for number in range(1, 9)]
UNANSWERED = [replace(read(status, None), buyer=f"buyer-{9 + n}") for n, status in enumerate((0, 502, 503, 409))]
NO_RECEIPT = [(500, b"{}"), (200, b"null"), (200, b'{"outcome": "sold"}'), (500, b'{"outcome": "sold", "order": "a"}')]


@pytest.mark.parametrize("promise", ["exact", "none"])
@pytest.mark.parametrize(
    ("stock", "answers", "went", "verdict", "result"),
    [
        (5, WENT, 1, "UNDERSOLD by 4, 8 without an answer, an instance went", "instance went"),
        (300, UNANSWERED, 0, "UNDERSOLD by 4, 2 refused, 2 without an answer", "too few answers"),
        *((1, [replace(read(*each), buyer="buyer-9")], 0, "1 answered with an error", "BROKEN") for each in NO_RECEIPT),
    ],
)
def test_buyers_who_were_not_served_are_named(
    promise: str, stock: int, answers: list[Answer], went: int, verdict: str, result: str
) -> None:
    """Where an instance went or too few were served there is no verdict; an answer that is no receipt breaks all."""
    run = rush(*answers, stock=stock, orders=1, promise=promise, went=went)
    assert run.verdict == verdict
    assert run.promise_result == result
    assert run.kept_promise is (False if result == "BROKEN" else None)


def test_a_flaw_is_not_hidden_by_buyers_who_were_not_served() -> None:
    """An oversold sale is broken, whatever else gives no verdict; an exact one is kept."""
    assert rush(*WENT, stock=1, left=1, orders=1, went=1).promise_result == "BROKEN"
    assert rush(*UNANSWERED, stock=1, orders=1).kept_promise is True
    assert rush(*WENT, stock=5, orders=1).promise_result == "too few answers"


def test_a_receipt_counts_although_the_answer_to_a_later_click_differs() -> None:
    """Sold, then sold out to the same buyer: with its order in the ledger all is well; without the first it is not."""
    first, later = replace(sold(0), sent_ms=1.0), replace(refused(0), sent_ms=2.0)
    assert Audit(1, 0, [entry(0)], [first, later]).verdict().kind is Kind.EXACT
    assert Audit(1, 0, [entry(0)], [later]).verdict().kind is Kind.FLAWED


# The comparison


def compared(*runs: GuardRun, hold_ms: int = 0) -> Comparison:
    """These runs with two items for three buyers."""
    return Comparison(2, 3, "2026-01-01T00:00:00+00:00", {"python": "3.11"}, list(runs), hold_ms)


GOOD, OVERSOLD = rush(sold_out=1), rush(orders=3)
BASELINE_RUN = rush(guard="none", promise="none", orders=3)
OUT_OF_TIME = rush(guard="redis-watch", orders=1, lock_timeout=1, lock_lost=1)
TOO_SLOW = "No verdict: this machine is too slow for redis-watch (UNDERSOLD by 1, gave up: 1, 1 refused)."
FOREIGN = [rush(guard=guard, promise=promise, foreign=1, sold_out=1) for guard, promise in
           (("none", "none"), ("etcd-batch", "exact"))]  # fmt: skip


def test_figures_of_a_run() -> None:
    """Wall time is from the first click to the last answer; the spread is between the clicks."""
    outcomes = [Outcome.SOLD, Outcome.SOLD, Outcome.SOLD_OUT]
    answers = [
        Answer(f"buyer-{n}", outcome, f"shop-{n % 2}", f"order-{n}", False, 100_000 + 10 * n, 101_000 + 1000 * n, n)
        for n, outcome in enumerate(outcomes)
    ]
    run = GuardRun.of(
        "etcd", "exact", Audit(2, 0, [entry(0), entry(1)], answers).verdict(), stock_left=0, answers=answers
    )
    assert (run.wall_s, run.send_spread_ms, run.requests_per_s) == (3.0, 20.0, 1.0)
    assert (run.waited_ms, run.held_ms) == (Percentiles(1.0, 2.0, 2.0), Percentiles(None, None, None))
    assert (run.outcomes["sold"], run.outcomes["sold_out"], run.failed) == (2, 1, 0)
    assert (run.by_instance["shop-0"]["sold"], run.by_instance["shop-0"]["sold_out"]) == (1, 1)


def test_percentiles_are_those_of_what_was_measured() -> None:
    """Half of the values are no larger than the median, and what was not measured is not a zero."""
    assert Percentiles.of([*range(101, 0, -1), None, None]) == Percentiles(51.0, 100.0, 101.0)
    assert Percentiles.of([1.0, 2.0]) == Percentiles(1.5, 2.0, 2.0)
    assert Percentiles.of([None, 7.04]) == Percentiles(7.0, 7.0, 7.0)
    assert Percentiles.of([None]) == Percentiles(None, None, None)


SENTENCES: list[tuple[list[GuardRun], str, str, int]] = [
    ([BASELINE_RUN, GOOD], "Every promise was kept. Without a lock, 3 of 2 items were sold.", "good", 0),
    (
        [BASELINE_RUN, rush(guard="redis-lock", orders=1, lock_lost=2)],
        "No verdict: too few buyers were answered under redis-lock (UNDERSOLD by 1, 2 refused). "
        "Without a lock, 3 of 2 items were sold.", "bad", 2,
    ),
    ([GOOD], "Every promise was kept.", "good", 0),
    ([BASELINE_RUN], "Nothing was promised. Without a lock, 3 of 2 items were sold.", "bad", 0),
    (
        [rush(guard="none", promise="none", sold_out=1)],
        "Nothing was promised. Without a lock nothing was oversold either: this rush proves nothing.", "plain", 0,
    ),
    ([GOOD, OUT_OF_TIME], TOO_SLOW, "bad", 2),
    ([OUT_OF_TIME, OVERSOLD], f"Promise broken: etcd (OVERSOLD by 1). {TOO_SLOW}", "bad", 1),
    (
        [FOREIGN[0], GOOD, FOREIGN[1]],
        "none, etcd-batch disturbed by other purchases: no verdict. "
        "Start again, and use this stack for nothing else meanwhile.", "bad", 2,
    ),
    (
        [rush(*WENT, stock=5, orders=1, went=1)],
        "No verdict: an instance ended during the rush under etcd "
        "(UNDERSOLD by 4, 8 without an answer, an instance went).", "bad", 2,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("runs", "sentence", "tone", "exit_code"), SENTENCES)
def test_the_sentence_says_what_it_comes_to(runs: list[GuardRun], sentence: str, tone: str, exit_code: int) -> None:
    """Which guard broke its promise, and how; what happened without a lock; no guard is to blame without a verdict."""
    comparison = compared(*runs)
    assert (comparison.sentence, comparison.tone, comparison.exit_code) == (sentence, tone, exit_code)
    assert comparison.baseline_oversold == (BASELINE_RUN in runs)


def test_each_run_tells_what_became_of_its_promise() -> None:
    """Out of time is neither kept nor broken, and without a verdict it is unknown: in the table and in the file.

    A think time that may be the cause is named.
    """
    runs = [GOOD, OUT_OF_TIME, *FOREIGN, OVERSOLD, BASELINE_RUN]
    assert [cells(run)["promise"] for run in runs] == ["kept", "out of time", "unknown", "unknown", "BROKEN", "none"]
    assert [run.kept_promise for run in runs] == [True, None, None, None, False, True]
    assert [(run.gave_up, run.ran_out_of_time) for run in runs[:2]] == [(0, False), (1, True)]
    assert "the think time, 12 s for all items" in compared(OUT_OF_TIME, hold_ms=6000).sentence
