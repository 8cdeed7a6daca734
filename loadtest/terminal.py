"""The console of the commands, and the comparison as a table: from the back of a room, and still in 80 columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from loadtest.results.comparison import Comparison, Percentiles, Run
from loadtest.results.text import pluralize

DASHES = box.Box("    \n    \n -- \n" + "    \n" * 5, ascii=True)
_GOOD, _BAD, _QUIET = "bold green", "bold red", "dim"
_LOG_WIDTH = 120


def console() -> Console:
    """Standard output: plain text if it is not a terminal, without colour if NO_COLOR is set."""
    found = Console(highlight=False)
    if not (found.is_terminal or os.environ.get("COLUMNS")):
        found.width = _LOG_WIDTH
    return found


def table(comparison: Comparison, *, width: int, plain: bool) -> Table:
    """A row for each guard, as many columns as fit into `width` characters.

    With `plain`, only characters that every terminal and log has.
    """
    empty = {
        "failed": not any(run.failed for run in comparison.runs),
        "not\nopen": not any(run.not_open for run in comparison.runs),
    }
    columns = [column for column in _CELLS if not empty.get(column)]
    drawn = _draw(comparison, columns, plain=plain, wide=True)
    for left_out in ("", *_LEFT_OUT):
        if _fits(drawn, width):
            break
        columns = [column for column in columns if column != left_out]
        drawn = _draw(comparison, columns, plain=plain, wide=False)
    return drawn


def _fits(drawn: Table, width: int) -> bool:
    unbounded = Console(width=10 * width)
    return Measurement.get(unbounded, unbounded.options, drawn).maximum <= width


def _draw(comparison: Comparison, columns: Sequence[str], *, plain: bool, wide: bool) -> Table:
    title = f"{pluralize(comparison.buyers, 'buyer')}, {pluralize(comparison.stock, 'item')}"
    if wide and not plain:
        drawn = Table(title=title, box=box.ROUNDED)
    else:
        drawn = Table(title=title, box=DASHES if plain else box.SIMPLE, padding=(0, int(wide)), show_edge=False)
    for column in columns:
        drawn.add_column(column, justify="left" if column in _WORDS else "right", no_wrap=column != "verdict")
    for run in comparison.runs:
        drawn.add_row(*(_CELLS[column](run) for column in columns))
    return drawn


def _count(number: int) -> Text:
    """A count that stands out unless it is 0."""
    return Text(str(number), _BAD if number else _QUIET)


def _pair(measured: Percentiles) -> Text:
    return Text("-" if measured.p50 is None else f"{measured.p50:.0f}/{measured.p99:.0f}")


def _verdict(run: Run) -> Text:
    return Text(run.verdict, _GOOD if run.verdict.startswith("EXACT") else _BAD)


def _promise(run: Run) -> Text:
    return Text(run.promise_result, {"none": _QUIET, "kept": _GOOD}.get(run.promise_result, _BAD))


_CELLS: dict[str, Callable[[Run], Text]] = {
    "guard": lambda run: Text(run.guard, "bold"),
    "sold": lambda run: Text(str(run.orders)),
    "over-\nsold": lambda run: _count(run.oversold),
    "lost\nupdates": lambda run: _count(run.lost_updates),
    "sold\nout": lambda run: Text(str(run.outcomes["sold_out"])),
    "not\nopen": lambda run: Text(str(run.not_open)),
    "failed": lambda run: _count(run.failed),
    "wall\ns": lambda run: Text(f"{run.wall_s:.2f}" if run.wall_s < 10 else f"{run.wall_s:.1f}"),
    "waited ms\np50/p99": lambda run: _pair(run.waited_ms),
    "took ms\np50/p99": lambda run: _pair(run.purchase_ms),
    "verdict": _verdict,
    "promise": _promise,
}
_WORDS = ("guard", "verdict", "promise")
_LEFT_OUT = (  # in this order
    *("over-\nsold", "sold\nout", "not\nopen", "waited ms\np50/p99", "promise"),
    *("took ms\np50/p99", "lost\nupdates", "wall\ns", "failed"),
)
TITLES = tuple(column.replace("-\n", "").replace("\n", " ") for column in _CELLS)


def cells(run: Run) -> dict[str, str]:
    """The cells of a run as plain text, by `TITLES`."""
    return {title: cell(run).plain for title, cell in zip(TITLES, _CELLS.values(), strict=True)}
