"""The results of all performances as one table, in 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from loadtest.faults.result import Result
from loadtest.table import DASHES

_GOOD, _BAD = "bold green", "bold red"


def table(results: Sequence[Result], *, plain: bool) -> Table:
    """A row for each result; `plain`: only characters that every terminal and log has."""
    drawn = Table(box=DASHES if plain else box.SIMPLE, padding=0, show_edge=False)
    for title in ("scenario", "guard", "expected", "observed"):
        drawn.add_column(title, no_wrap=title != "observed")
    for title in ("sold +\nstock", "lost\nupdates", "longest\nstall s"):
        drawn.add_column(title, justify="right", no_wrap=True)
    drawn.add_column("as\nexpected", justify="right")
    for result in results:
        drawn.add_row(*_row(result))
    return drawn


def _row(result: Result) -> list[Text | str]:
    total = result.sold + result.stock_left
    return [
        result.scenario,
        result.guard,
        result.expected.value,
        result.observed,
        Text(str(total), "" if total == result.stock else _BAD),
        str(result.lost_updates),
        f"{result.stall_s:.1f}",
        Text("yes", _GOOD) if result.as_expected else Text("NO", _BAD),
    ]
