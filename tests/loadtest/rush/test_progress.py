"""What a rush shows: one table that fills in a terminal, a plain one in a log, colour only where it is wanted."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from app.contract.outcomes import Outcome
from app.contract.verdict import Kind
from app.guards import guards
from loadtest.language import CHINESE, ENGLISH
from loadtest.results.answer import Answer
from loadtest.results.audit import Audit
from loadtest.results.comparison import Comparison, GuardRun, Percentiles
from loadtest.terminal import comparison_table
from tests.support.terminal import Terminal, printed

COLOUR = r"\x1b\[([0-9]+;)*(3[0-7]|9[0-7])m"
ESCAPE = r"\x1b\[[0-9;?]*[A-Za-z]"
GUARDS = list(guards())
# A rush in three acts, as the conductor tells it, and its end; the results are in a file.
ACTS = """
import sys
from dataclasses import replace
from pathlib import Path
from loadtest.results.comparison import Comparison
from loadtest.results.record import Sample
from loadtest.rush.progress import Terminal
results = Comparison.read(Path(sys.argv[1]))
comparison = replace(results, runs=[])
terminal = Terminal()
terminal.begins(comparison, ["none", "etcd"])
for run, stock, orders, waiters in zip(results.runs, (77, 123), (223, 177), (0, 245)):
    terminal.round_begins(run.guard)
    terminal.observed(Sample(1.0, stock, orders, None, waiters))
    comparison.runs.append(run)
    terminal.round_ends()
terminal.show(comparison, complete=True)
terminal.fail("no [more] buyers")
"""
SLOW = Percentiles(1234.5, 9876.5, 9999.0)


def a_run(guard: str) -> GuardRun:
    """A rush of one buyer for nothing, with figures as wide as they get."""
    answer = Answer("buyer", Outcome.SOLD_OUT, "shop")
    verdict = Audit(0, 0, [], [answer]).verdict()
    run = GuardRun.of(guard, "none" if guard == "none" else "exact", verdict, stock_left=0, answers=[answer])
    return replace(run, purchase_ms=SLOW, waited_ms=SLOW, orders=500, lost_updates=499, wall_s=12.34)


@pytest.mark.parametrize("settings", [{}, {"NO_COLOR": "1"}], ids=str)
def test_a_terminal_is_shown_the_sale_as_it_goes(tmp_path: Path, settings: dict[str, str]) -> None:
    """The row of the guard that runs has what is sold, left and waiting; in colour unless NO_COLOR is set."""
    results = tmp_path / "comparison.json"
    Comparison(300, 500, "", {}, [a_run("none"), a_run("etcd")]).write(results)
    env = {**os.environ, "COLUMNS": "80", **settings}
    with Terminal([sys.executable, "-c", ACTS, str(results)], env, term="xterm-256color") as played:
        assert not played.shows("\0"), "it is closed before"
        assert played.process.wait(30) == 0, played
    assert bool(re.search(COLOUR, played.screen)) is ("NO_COLOR" not in settings)
    plain = re.sub(ESCAPE, "", played.screen)
    assert re.search(r"none +getting ready", plain)
    assert re.search(r"none +500 .*EXACT +none *\s+etcd +177 +[\d.]+ +245 wait +123 left", plain)
    assert re.search(r"etcd +500 .*EXACT +kept", plain)
    assert "Error: no [more] buyers" in plain


@pytest.mark.parametrize("width", [60, 80, 115, 200])
@pytest.mark.parametrize("plain", [True, False])
def test_it_fits_and_cuts_nothing_off(width: int, plain: bool) -> None:
    """All guards fit in 80 columns, one line each, in a terminal and plainly in a log; in 60 with what matters most.

    The Chinese table fits in 80 as well, with the verdicts under Chinese headings.
    """
    oversold = [replace(a_run(each), findings={"oversold": 200}, kind=Kind.OVERSOLD, exact=False) for each in GUARDS]
    comparison = Comparison(300, 500, "2026-01-01T00:00:00+00:00", {}, oversold)

    def shown(language: str) -> str:
        table = comparison_table(comparison, width=width, plain=plain, guards=GUARDS, language=language)
        colours = None if plain else "auto"
        return printed(table, width=width, force_terminal=not plain, color_system=colours)

    text = shown(ENGLISH)
    for guard in GUARDS:
        (line,) = [line for line in text.splitlines() if re.search(rf"(^|[ |m]){guard}[ |\x1b]", line)]
        for figure in ("500", "200", "499", "12.3", "OVERSOLD by 200", *(["1234/9876"] if width > 60 else [])):
            assert figure in line, line
    assert "…" not in text
    assert text.isascii() is plain
    assert ("\x1b" in text) is not plain
    assert "500 buyers, 300 items, all clicks within 0 ms" in text
    if width == 80:
        chinese = shown(CHINESE)
        assert max(map(cell_len, re.sub(ESCAPE, "", chinese).splitlines())) <= 80
        assert {"守卫", "已售", "丢失的", "判定"} <= set(re.findall("[\u4e00-\u9fff]+", chinese))
        assert sum("OVERSOLD 超卖 200" in line for line in chinese.splitlines()) == len(GUARDS)
        assert "…" not in chinese
