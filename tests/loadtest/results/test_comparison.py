"""The comparison: figures of a run, the sentence, and the JSON that is kept of it."""

from __future__ import annotations

import pytest

from app.contract.orders import Order
from app.contract.outcomes import Outcome
from loadtest.results.answer import Answer
from loadtest.results.audit import Audit
from loadtest.results.comparison import Comparison, GuardRun, Percentiles
from loadtest.terminal import cells


def a_run(
    guard: str = "etcd", promise: str = "exact", *, orders: int = 2, timed_out: int = 0, foreign: int = 0
) -> GuardRun:
    """A rush of three buyers for two items; the first, one after the other, got what they wanted."""
    rest = Outcome.SOLD_OUT if orders + foreign >= 2 else Outcome.LOCK_LOST
    outcomes = ([Outcome.SOLD] * orders + [Outcome.LOCK_TIMEOUT] * timed_out + [rest] * 3)[:3]
    orders_of = [f"order-{n}" if n < orders else None for n in range(3)]
    answers = [
        Answer(f"buyer-{n}", outcomes[n], f"shop-{n % 2}", orders_of[n], False, 100_000 + 10 * n, 101_000 + 1000 * n, n)
        for n in range(3)
    ]
    ledger = [Order(f"order-{n}", f"buyer-{n}") for n in range(orders)]
    ledger += [Order(f"order-{n}", "anonymous") for n in range(orders, orders + foreign)]
    left = max(0, 2 - len(ledger))
    verdict = Audit(2, left, ledger, answers).verdict()
    return GuardRun.of(guard, promise, verdict, stock_left=left, answers=answers)


def compared(*runs: GuardRun) -> Comparison:
    """These runs with two items for three buyers."""
    return Comparison(2, 3, "2026-01-01T00:00:00+00:00", {"python": "3.11"}, list(runs))


BASELINE_RUN = a_run("none", "none", orders=3)
OUT_OF_TIME = a_run("redis-watch", orders=1, timed_out=1)
TOO_SLOW = "No verdict: this machine is too slow for redis-watch (UNDERSOLD by 1, gave up: 1, 1 refused)."


def test_figures_of_a_run() -> None:
    """Wall time is from the first click to the last answer; the spread is between the clicks."""
    run = a_run()
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


@pytest.mark.parametrize(
    ("runs", "sentence", "tone", "exit_code"),
    [
        ([BASELINE_RUN, a_run()], "Every promise was kept. Without a lock, 3 of 2 items were sold.", "good", 0),
        (
            [BASELINE_RUN, a_run("redis-lock", orders=1)],
            "No verdict: too few buyers were answered under redis-lock (UNDERSOLD by 1, 2 refused). "
            "Without a lock, 3 of 2 items were sold.", "bad", 2,
        ),
        ([a_run()], "Every promise was kept.", "good", 0),
        ([BASELINE_RUN], "Nothing was promised. Without a lock, 3 of 2 items were sold.", "bad", 0),
        (
            [a_run("none", "none")],
            "Nothing was promised. Without a lock nothing was oversold either: this rush proves nothing.", "plain", 0,
        ),
        ([a_run(), OUT_OF_TIME], TOO_SLOW, "bad", 2),
        ([OUT_OF_TIME, a_run(orders=3)], f"Promise broken: etcd (OVERSOLD by 1). {TOO_SLOW}", "bad", 1),
        (
            [a_run("none", "none", foreign=1), a_run(), a_run("etcd-batch", foreign=1)],
            "none, etcd-batch disturbed by other purchases: no verdict. "
            "Start again, and use this stack for nothing else meanwhile.", "bad", 2,
        ),
    ],
)  # fmt: skip
def test_the_sentence_says_what_it_comes_to(runs: list[GuardRun], sentence: str, tone: str, exit_code: int) -> None:
    """Which guard broke its promise, and how; what happened without a lock; no guard is to blame without a verdict."""
    comparison = compared(*runs)
    assert (comparison.sentence, comparison.tone, comparison.exit_code) == (sentence, tone, exit_code)
    assert comparison.baseline_oversold == (BASELINE_RUN in runs)


def test_each_run_tells_what_became_of_its_promise() -> None:
    """Out of time is neither kept nor broken, and without a verdict it is unknown: in the table and in the file."""
    runs = [a_run(), OUT_OF_TIME, a_run("none", "none", foreign=1), a_run(foreign=1), a_run(orders=3), BASELINE_RUN]
    assert [cells(run)["promise"] for run in runs] == ["kept", "out of time", "unknown", "unknown", "BROKEN", "none"]
    assert [run.kept_promise for run in runs] == [True, None, None, None, False, True]
    assert [(run.gave_up, run.ran_out_of_time) for run in runs[:2]] == [(0, False), (1, True)]
