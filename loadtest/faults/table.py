"""The results of all performances as one table, in 80 columns or in as many as there are."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from loadtest.faults.result import EXACT, Result
from loadtest.terminal.table import DASHES

_WIDE = 100
_GOOD, _BAD, _QUIET = "bold green", "bold red", "dim"


def table(results: Sequence[Result], *, width: int, plain: bool) -> Table:
    """A row for each result; the rows of a scenario stand together, under its name.

    Args:
        results: what to show, in the order in which it was played.
        width: characters there are in a line.
        plain: only characters that every terminal and log has.
    """
    wide = width >= _WIDE
    drawn = Table(box=DASHES if plain else box.SIMPLE, padding=(0, int(wide)), show_edge=False)
    for title in ("scenario", "guard", "expected", "observed"):
        drawn.add_column(title, no_wrap=title != "observed")
    for title in ("sold +\nstock", "lost\nupdates", "longest\nstall s" if wide else "stall\nmax s"):
        drawn.add_column(title, justify="right", no_wrap=True)
    drawn.add_column("verdict", no_wrap=True)
    above = ""
    for result in results:
        drawn.add_row(Text("" if result.scenario == above else result.scenario, "bold"), *_cells(result))
        above = result.scenario
    return drawn


def _cells(result: Result) -> list[Text | str]:
    total = result.sold + result.stock_left
    return [
        result.guard,
        result.expected.value,
        Text(result.observed, "" if result.observed == EXACT else _BAD),
        Text(str(total), "" if total == result.stock else _BAD),
        Text(str(result.lost_updates), _BAD if result.lost_updates else _QUIET),
        f"{result.stall_s:.1f}",
        Text("ok", _GOOD) if result.as_expected else Text("WRONG", _BAD),
    ]
