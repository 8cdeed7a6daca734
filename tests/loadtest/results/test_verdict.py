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
NO_VERDICT = "disturbed by other purchases: no verdict"
# A rush, its verdict, and what became of the promise.
JUDGED: list[tuple[GuardRun, str, str]] = [
    # However its buyers were refused, a sale that sold nothing is not exact.
    (rush(stock=1, orders=0, lock_timeout=1000), "UNDERSOLD by 1, gave up: 1000", "out of time"),
    (rush(stock=3000, orders=0, sold_out=1000), "UNDERSOLD by 1000, 1000 told sold out too early", "BROKEN"),
    (rush(stock=3000, orders=0, error=1000), "UNDERSOLD by 1000, 1000 without an answer", "too few answers"),
    (rush(stock=1, orders=0, lock_lost=1000), "UNDERSOLD by 1, 1000 refused", "too few answers"),
    (rush(stock=1, orders=0, unavailable=1000), "UNDERSOLD by 1, 1000 refused", "too few answers"),
    # Buyers that gave up explain what was not sold, unless an update was lost, an item vanished or another was refused.
    (rush(stock=10, orders=8, lock_timeout=2), "UNDERSOLD by 2, gave up: 2", "out of time"),
    (rush(stock=10, orders=8, lock_timeout=5), "UNDERSOLD by 2, gave up: 5", "out of time"),
    (rush(stock=10, orders=8, lock_timeout=5, left=3), "UNDERSOLD by 2, gave up: 5, 1 lost update", "BROKEN"),
    (rush(stock=10, orders=8, lock_timeout=1, left=0), "UNDERSOLD by 2, gave up: 1", "BROKEN"),
    (rush(stock=10, orders=8, lock_timeout=1, lock_lost=1), "UNDERSOLD by 2, gave up: 1, 1 refused", "too few answers"),
    (rush(stock=10, orders=8, sold_out=5), "UNDERSOLD by 2, 5 told sold out too early", "BROKEN"),
    # Where an instance went or too few were served there is no verdict; an answer that is no receipt breaks all.
    *(row for promise in ("exact", "none") for row in [
        (rush(*WENT, stock=5, orders=1, promise=promise, went=1),
         "UNDERSOLD by 4, 8 without an answer, an instance went", "instance went"),
        (rush(*UNANSWERED, stock=300, orders=1, promise=promise),
         "UNDERSOLD by 4, 2 refused, 2 without an answer", "too few answers"),
        *((rush(replace(read(*each), buyer="buyer-9"), stock=1, orders=1, promise=promise),
           "1 answered with an error", "BROKEN") for each in NO_RECEIPT),
    ]),
    (rush(*WENT, stock=5, orders=1), "UNDERSOLD by 4, 8 without an answer", "too few answers"),
    # That hides no flaw; and an exact sale is exact.
    (rush(*WENT, stock=1, left=1, orders=1, went=1), "1 lost update, an instance went", "BROKEN"),
    (rush(*UNANSWERED, stock=1, orders=1), "EXACT", "kept"),
    (rush(orders=3, guard="none", promise="none"), "OVERSOLD by 1", "none"),
    # With purchases from outside the rush there is neither EXACT nor a flaw to blame a guard for.
    *((rush(stock=stock, left=left, orders=1, foreign=2, sold_out=1), NO_VERDICT, "unknown")
      for stock, left in ((2, 0), (2, 1), (3, 0))),
]  # fmt: skip


@pytest.mark.parametrize(("run", "verdict", "result"), JUDGED)
def test_a_rush_has_its_verdict_and_tells_what_became_of_its_promise(run: GuardRun, verdict: str, result: str) -> None:
    """In the table and in the file; what has no verdict is neither kept nor broken."""
    assert (run.verdict, run.promise_result, cells(run)["promise"]) == (verdict, result, result)
    assert run.kept_promise is {"kept": True, "none": True, "BROKEN": False}.get(result)
    assert run.ran_out_of_time == (result == "out of time")


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


def test_a_think_time_that_may_be_the_cause_is_named() -> None:
    """Where a guard ran out of time, with what it takes for all items."""
    assert "the think time, 12 s for all items" in compared(OUT_OF_TIME, hold_ms=6000).sentence
