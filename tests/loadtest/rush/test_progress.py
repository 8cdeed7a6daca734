"""What a rush shows while it runs: a live line in a terminal, plain lines in a log, colour only where it is wanted."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from loadtest.results.comparison import GUARDS
from loadtest.results.record import Sample
from loadtest.rush.progress import live_line
from loadtest.terminal import console
from tests.support.terminal import Terminal

COLOUR = r"\x1b\[([0-9]+;)*(3[0-7]|9[0-7])m"
# A rush in three acts, as the conductor tells it.
ACTS = """
from dataclasses import replace
from loadtest.results.record import Sample
from loadtest.rush.progress import Terminal
from tests.loadtest.terminal.test_table import a_run
terminal = Terminal()
terminal.round_begins("etcd", buyers=500, stock=300)
terminal.observed(Sample(1.0, 123, 177, None, 245), answered=0)
terminal.round_ends(replace(a_run("etcd"), verdict="EXACT"))
terminal.fail("no [more] buyers")
"""


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
