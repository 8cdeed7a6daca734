"""The results of all performances as one table."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from loadtest.faults.result import Result

_GOOD, _BAD = "bold green", "bold red"


def table(results: Sequence[Result], *, plain: bool) -> Table:
    """A row for each result; `plain`: only characters that every terminal and log has."""
    drawn = Table(box=box.ASCII2 if plain else box.ROUNDED, header_style="bold")
    for name in ("scenario", "guard", "expected"):
        drawn.add_column(name, no_wrap=True)
    drawn.add_column("observed")
    for name in ("sold + stock", "lost\nupdates", "longest\nstall s"):
        drawn.add_column(name, justify="right", no_wrap=True)
    drawn.add_column("as expected")
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
        Text(f"{result.sold} + {result.stock_left} = {total}", "" if total == result.stock else "bold yellow"),
        str(result.lost_updates),
        f"{result.stall_s:.1f}",
        Text("yes", _GOOD) if result.as_expected else Text("NO: " + "; ".join(result.problems), _BAD),
    ]
