"""The table in the terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loadtest.results.answer import Answer, Outcome
from loadtest.results.comparison import GUARDS, Comparison, Percentiles, Run
from loadtest.results.verdict import judge
from loadtest.terminal import table
from tests.support.terminal import printed

SLOW = Percentiles(1234.5, 9876.5, 9999.0)


def a_run(guard: str, outcome: Outcome = Outcome.SOLD_OUT) -> Run:
    """A rush of one buyer for nothing, with figures as wide as they get."""
    answer = Answer("buyer", outcome, "shop")
    verdict = judge(stock=0, stock_left=0, ledger=[], answers=[answer])
    run = Run.of(guard, "none" if guard == "none" else "exact", verdict, stock_left=0, answers=[answer])
    return replace(run, purchase_ms=SLOW, waited_ms=SLOW, orders=500, lost_updates=499, wall_s=12.34)


def shown(*runs: Run, width: int = 200, plain: bool = True) -> str:
    comparison = Comparison(300, 500, "2026-01-01T00:00:00+00:00", {}, list(runs))
    shown_as = {"force_terminal": not plain, "color_system": None if plain else "auto"}
    return printed(table(comparison, width=width, plain=plain), width=width, **shown_as)


@pytest.mark.parametrize("width", [60, 80, 115, 200])
@pytest.mark.parametrize("plain", [True, False])
def test_it_fits_and_cuts_nothing_off(width: int, plain: bool) -> None:
    """All guards fit in 80 columns, one line each, in a terminal and plainly in a log; in 60 with what matters most."""
    text = shown(*(replace(a_run(guard), verdict="OVERSOLD by 200") for guard in GUARDS), width=width, plain=plain)
    for guard in GUARDS:
        (line,) = [line for line in text.splitlines() if re.search(rf"(^|[ |m]){guard}[ |\x1b]", line)]
        for figure in ("500", "499", "1234/9876", "12.3", "OVERSOLD by 200"):
            assert figure in line, line
    assert "…" not in text
    assert text.isascii() is plain
    assert ("\x1b" in text) is not plain
    assert "500 buyers, 300 items" in text


@pytest.mark.parametrize(
    ("outcome", "columns"),
    [(Outcome.SOLD_OUT, set()), (Outcome.NOT_OPEN, {"open"}), (Outcome.LOCK_TIMEOUT, {"failed"})],
)
def test_a_column_of_zeros_is_left_out(outcome: Outcome, columns: set[str]) -> None:
    """Failed clicks, and those before the opening, which are not failures, have a column where there are any."""
    titles = " ".join(shown(a_run("etcd", outcome)).splitlines()[:3]).split()
    assert {"open", "failed"} & {*titles} == columns


@pytest.mark.parametrize("verdict", ["UNDERSOLD by 271, gave up: 268", "UNDERSOLD by 271, gave up: 268, 120 in doubt"])
@pytest.mark.parametrize("plain", [True, False])
def test_columns_are_dropped_before_words_are_broken(verdict: str, plain: bool) -> None:
    """A long verdict stands in one line of 80 columns, beside its guard and what was sold."""
    text = shown(
        replace(a_run("redis-watch", Outcome.LOCK_TIMEOUT), verdict=verdict), a_run("none"), width=80, plain=plain
    )
    (line,) = [line for line in text.splitlines() if "redis-watch" in line]
    assert verdict in line
    assert "500" in line
    assert "…" not in text


def test_one_has_no_plural() -> None:
    """The title says how many there are."""
    assert table(Comparison(1, 1, "", {}, []), width=80, plain=True).title == "1 buyer, 1 item"
