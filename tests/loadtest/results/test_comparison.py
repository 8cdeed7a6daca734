"""The comparison: figures of a run, the sentence, and the JSON that is kept of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.guards import GUARDS as SHOP_GUARDS
from app.guards import Promise
from loadtest.results.answer import Answer, Outcome
from loadtest.results.comparison import BASELINE, GUARDS, NO_PROMISE, Comparison, Percentiles, Run
from loadtest.results.verdict import Order, judge
from loadtest.terminal.table import cells

BROKEN = "sold but denied"


def a_run(guard: str = "etcd", promise: str = "exact", *, stock: int = 2, buyers: int = 3, orders: int = 2) -> Run:
    """A rush in which the first `orders` buyers, one after the other, got what they wanted."""
    answers = [
        Answer(
            f"buyer-{n}",
            Outcome.SOLD if n < orders else Outcome.SOLD_OUT,
            f"shop-{n % 2}",
            f"order-{n}" if n < orders else None,
            sent=100 + n / 100,
            received=101 + n,
            waited_ms=float(n),
        )
        for n in range(buyers)
    ]
    ledger = [Order(f"order-{n}", f"buyer-{n}") for n in range(orders)]
    left = max(0, stock - orders)
    verdict = judge(stock=stock, stock_left=left, ledger=ledger, answers=answers)
    return Run.of(guard, promise, verdict, stock_left=left, answers=answers)


def compared(*runs: Run) -> Comparison:
    """These runs with two items for three buyers."""
    return Comparison(2, 3, "2026-01-01T00:00:00+00:00", {"python": "3.11"}, list(runs))


def test_the_guards_are_those_of_the_shop() -> None:
    """What the options and the page offer is what the shop has, in its order; so are the words for the baseline."""
    assert tuple(guard.name for guard in SHOP_GUARDS) == GUARDS
    assert Promise.NONE.value == NO_PROMISE
    assert next(guard.promise for guard in SHOP_GUARDS if guard.name == BASELINE) is Promise.NONE


def test_figures_of_a_run() -> None:
    """Wall time is from the first click to the last answer; the spread is between the clicks."""
    run = a_run()
    assert (run.wall_s, run.send_spread_ms, run.requests_per_s) == (3.0, 20.0, 1.0)
    assert run.waited_ms == Percentiles(1.0, 2.0, 2.0)
    assert run.held_ms == Percentiles(None, None, None)
    assert (run.outcomes["sold"], run.outcomes["sold_out"]) == (2, 1)
    assert run.by_instance["shop-0"]["sold"] == 1
    assert run.by_instance["shop-0"]["sold_out"] == 1
    assert run.failed == 0


def test_percentiles_are_those_of_what_was_measured() -> None:
    """Half of the values are no larger than the median, and what was not measured is no zero."""
    assert Percentiles.of([*range(101, 0, -1), None, None]) == Percentiles(51.0, 100.0, 101.0)
    assert Percentiles.of([1.0, 2.0]) == Percentiles(1.5, 2.0, 2.0)
    assert Percentiles.of([None, 7.04]) == Percentiles(7.0, 7.0, 7.0)
    assert Percentiles.of([None]) == Percentiles(None, None, None)


def test_only_what_was_not_served_has_failed() -> None:
    """Sold out is an answer like sold; the other outcomes are failures."""
    for outcome in Outcome:
        answer = Answer("buyer-0", outcome, "shop", received=1.0)
        verdict = judge(stock=1, stock_left=1, ledger=[], answers=[answer])
        run = Run.of("etcd", "exact", verdict, stock_left=1, answers=[answer])
        assert run.failed == (0 if outcome in (Outcome.SOLD, Outcome.SOLD_OUT) else 1)


@pytest.mark.parametrize(("orders", "kept"), [(2, True), (3, False), (1, False)])
def test_a_promise_is_kept_by_an_exact_sale_only(orders: int, kept: bool) -> None:
    """Too many and too few both break the promise of a guard that made one; who promised nothing breaks nothing."""
    assert a_run(orders=orders).kept_promise == kept
    assert a_run("none", "none", orders=orders).kept_promise
    assert compared(a_run(), a_run(orders=orders)).kept == kept


def test_the_sentence_names_the_broken_promise() -> None:
    """Which guard broke its promise, and how; and what happened without a lock, which proves something or nothing."""
    baseline = a_run("none", "none", orders=3)
    assert compared(baseline, a_run()).sentence == "Every promise was kept. Without a lock, 3 of 2 items were sold."
    assert compared(baseline, a_run("redis-lock", orders=1)).sentence.startswith(
        "Promise broken: redis-lock (UNDERSOLD by 1)."
    )
    assert compared(a_run()).sentence == "Every promise was kept."
    assert compared(baseline).sentence == "Nothing was promised. Without a lock, 3 of 2 items were sold."
    assert "proves nothing" in compared(a_run("none", "none"), a_run()).sentence
    assert [compared(run).baseline_oversold for run in (baseline, a_run("none", "none"))] == [1, 0]


def out_of_time() -> Run:
    """A rush whose second buyer waited for the lock in vain."""
    answers = [Answer("buyer-0", Outcome.SOLD, "shop", "order-0"), Answer("buyer-1", Outcome.LOCK_TIMEOUT, "shop")]
    verdict = judge(stock=2, stock_left=1, ledger=[Order("order-0", "buyer-0")], answers=answers)
    return Run.of("redis-watch", "exact", verdict, stock_left=1, answers=answers)


def test_running_out_of_time_is_no_broken_promise() -> None:
    """It is not a success either: sentence, table and file tell it apart from a guard that broke its promise."""
    comparison = compared(a_run(), out_of_time())
    assert comparison.sentence == "Out of time: redis-watch (UNDERSOLD by 1, gave up: 1)."
    assert (comparison.exit_code, comparison.tone, cells(comparison.runs[1])[-1]) == (1, "bad", "out of time")
    assert [(run.gave_up, run.ran_out_of_time) for run in comparison.runs] == [(0, False), (1, True)]
    both = compared(out_of_time(), a_run("etcd", orders=3))
    assert both.sentence.startswith("Promise broken: etcd (OVERSOLD by 1). Out of time: redis-watch (")


def test_without_a_promise_there_is_no_success() -> None:
    """A sale that oversold is not shown as one that went well because nothing was promised."""
    baseline = a_run("none", "none", orders=3)
    assert (compared(baseline).tone, compared(baseline, a_run()).tone) == ("bad", "good")
    assert compared(a_run("none", "none")).tone == "plain"


def test_files_from_before_are_read(tmp_path: Path) -> None:
    """A comparison without the members that came later is one in which no buyer gave up."""
    path = tmp_path / "comparison.json"
    written = json.loads(compared(a_run()).to_json())
    del written["runs"][0]["gave_up"], written["runs"][0]["ran_out_of_time"], written["machine"]
    path.write_text(json.dumps(written), encoding="utf-8")
    assert Comparison.read(path) == compared(a_run())


def disturbed(guard: str, promise: str) -> Run:
    """A rush in which one item more than there was has been bought from outside."""
    answers = [Answer("buyer-0", Outcome.SOLD, "shop", "order-0", received=1.0)]
    ledger = [Order("order-0", "buyer-0"), Order("order-1", "anonymous")]
    verdict = judge(stock=1, stock_left=0, ledger=ledger, answers=answers)
    return Run.of(guard, promise, verdict, stock_left=0, answers=answers)


def test_without_a_verdict_no_promise_is_kept_or_broken(tmp_path: Path) -> None:
    """Purchases from outside prove nothing and blame no guard: the exit code is another one."""
    comparison = compared(disturbed("none", "none"), a_run(), disturbed("etcd-batch", "exact"))
    assert comparison.sentence == (
        "none, etcd-batch disturbed by somebody else's purchases: no verdict. "
        "Start again and let nobody else use this stack meanwhile."
    )
    assert [run.kept_promise for run in comparison.runs] == [None, True, None]
    assert (comparison.kept, comparison.baseline_oversold, comparison.exit_code) == (False, 0, 2)
    assert [cells(run)[-1] for run in comparison.runs] == ["unknown", "kept", "unknown"]
    assert (compared(a_run()).exit_code, compared(a_run(orders=3)).exit_code) == (0, 1)
    comparison.write(tmp_path / "comparison.json")
    assert Comparison.read(tmp_path / "comparison.json") == comparison


def test_comparison_json_has_its_shape(tmp_path: Path) -> None:
    """The file has these members and no others, and reads back as what was written."""
    path = tmp_path / "reports" / "comparison.json"
    comparison = compared(a_run("none", "none", orders=3), replace(a_run(), verdict=BROKEN))
    comparison.write(path)
    assert Comparison.read(path) == comparison
    written = json.loads(path.read_text())
    assert list(written) == ["stock", "buyers", "started", "versions", "runs", "hold_ms", "machine"]
    assert " ".join(written["runs"][0]) == (
        "guard promise outcomes orders stock_left oversold undersold lost_updates duplicates verdict kept_promise "
        "wall_s requests_per_s send_spread_ms purchase_ms waited_ms held_ms by_instance gave_up ran_out_of_time"
    )
    assert list(written["runs"][0]["outcomes"]) == [outcome.value for outcome in Outcome]
    assert list(written["runs"][0]["purchase_ms"]) == ["p50", "p99", "max"]
