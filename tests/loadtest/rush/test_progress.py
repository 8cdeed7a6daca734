"""What a rush shows: a live line in a terminal, plain lines in a log, a table, colour only where it is wanted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from loadtest.results.answer import Answer, Outcome
from loadtest.results.comparison import GUARDS, Comparison, Percentiles, Run
from loadtest.results.record import Sample
from loadtest.results.verdict import judge
from loadtest.rush.progress import live_line
from loadtest.terminal import console, table
from tests.support.terminal import Terminal, printed

COLOUR = r"\x1b\[([0-9]+;)*(3[0-7]|9[0-7])m"
# A rush in three acts, as the conductor tells it.
ACTS = """
from dataclasses import replace
from loadtest.results.record import Sample
from loadtest.rush.progress import Terminal
from tests.loadtest.rush.test_progress import a_run
terminal = Terminal()
terminal.round_begins("etcd", buyers=500, stock=300)
terminal.observed(Sample(1.0, 123, 177, None, 245), answered=0)
terminal.round_ends(replace(a_run("etcd"), verdict="EXACT"))
terminal.fail("no [more] buyers")
"""


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


def sample(stock: int | None, orders: int | None, waiters: int | None) -> Sample:
    return Sample(0.0, stock, orders, None, waiters)


def shown_in_a_terminal(**settings: str) -> str:
    env = {**os.environ, "COLUMNS": "80", **settings}
    with Terminal([sys.executable, "-c", ACTS], env, term="xterm-256color") as acts:
        assert not acts.shows("\0"), "it is closed before"
        assert acts.process.wait(30) == 0, acts
    return acts.screen


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("seen", [sample(300, 0, 500), sample(0, 500, 0), sample(123, 177, None)])
def test_the_live_line_fits_beside_the_spinner(guard: str, seen: Sample) -> None:
    """The longest name and the largest figures fit into 80 columns, in plain characters."""
    line = live_line(guard, 300, seen, 500)
    assert line.cell_len <= 80 - 2
    assert line.plain.isascii()
    assert f"{seen.orders:>3} sold  {seen.stock:>3} left" in line.plain


def test_overselling_is_another_sign_and_not_another_colour_alone() -> None:
    """The part of the bar beyond the stock has its own character; an exact sale has none of it."""
    assert "=" * 11 + "#" * 7 in live_line("none", 300, sample(0, 500, 0), 500).plain
    assert "=" * 18 + " " in live_line("etcd", 300, sample(0, 300, 0), 500).plain
    assert "wait" not in live_line("redis-lua", 300, sample(0, 300, 0), 500).plain
    assert live_line("etcd", 300, sample(None, None, 3), 7).plain.endswith("Redis is unavailable")
    assert " 244 wait " in live_line("etcd", 300, sample(0, 300, 244), 500).plain


@pytest.mark.parametrize("settings", [{}, {"NO_COLOR": "1"}], ids=str)
def test_a_terminal_is_shown_the_sale_as_it_goes(settings: dict[str, str]) -> None:
    """The live line is there, in colour unless NO_COLOR is set, and is replaced by the result."""
    written = shown_in_a_terminal(**settings)
    assert "177 sold" in written
    assert bool(re.search(COLOUR, written)) is ("NO_COLOR" not in settings)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    assert re.search(r"etcd +EXACT: 500 sold in 12\.34 s", plain)
    assert "Error: no [more] buyers" in plain


def test_a_log_has_plain_lines() -> None:
    """Where there is no terminal, nothing moves and nothing is coloured: a line for each result."""
    done = subprocess.run([sys.executable, "-c", ACTS], capture_output=True, text=True, timeout=30, check=True)
    assert "\x1b" not in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["etcd", "Error:"]


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("", 120)])
def test_columns_say_how_wide_a_log_is(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    """Without them it is wide enough for every column."""
    monkeypatch.setenv("COLUMNS", columns)
    assert console().width == width


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
