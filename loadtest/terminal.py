"""The console of the commands, and the comparison as a table: from the back of a room, and still in 80 columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from loadtest.results.comparison import Comparison, Percentiles, Run
from loadtest.results.record import Sample
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


@dataclass(frozen=True)
class Running:
    """The guard under which buyers buy, since when, and the sale as it was seen last."""

    guard: str
    seconds: float = 0.0
    sample: Sample | None = None

    def cells(self) -> dict[str, Text]:
        """What its row has already, by column."""
        told = {"guard": Text(self.guard, "bold"), "verdict": Text("getting ready", _QUIET)}
        if self.sample is None:
            return told
        told["wall\ns"] = Text(f"{self.seconds:.1f}", _QUIET)
        if self.sample.stock is None or self.sample.orders is None:
            return told | {"verdict": Text("no Redis", _BAD)}
        told |= {"sold": Text(str(self.sample.orders)), "verdict": Text(f"{self.sample.stock} left", "bold")}
        return told | ({"waited ms\np50/p99": Text(f"{self.sample.waiters} wait")} if self.sample.waiters else {})


def comparison_table(
    comparison: Comparison, *, width: int, plain: bool, guards: Sequence[str] = (), running: Running | None = None
) -> Table:
    """A row for each guard, as many columns as fit into `width` characters.

    With `plain`, only characters that every terminal and log has. A table that fills keeps room for all `guards`, and
    has a row for the one that is `running`.
    """
    empty = {
        "failed": not any(run.failed for run in comparison.runs),
        "not\nopen": not any(run.not_open for run in comparison.runs),
    }
    columns = [column for column in _CELLS if not empty.get(column)]
    names = [*guards, *(run.guard for run in comparison.runs)]
    widths = {"guard": max(map(len, names), default=0), "verdict": len(f"OVERSOLD by {comparison.buyers}")}
    rows = [{column: cell(run) for column, cell in _CELLS.items()} for run in comparison.runs]
    rows += [running.cells()] if running else []

    def drawn_as(*, wide: bool) -> Table:
        drawn = _empty_table(comparison, plain=plain, wide=wide)
        for column in columns:
            justify: Literal["left", "right"] = "left" if column in _WORDS else "right"
            drawn.add_column(column, justify=justify, no_wrap=column != "verdict", min_width=widths.get(column))
        for row in rows:
            drawn.add_row(*(row.get(column, "") for column in columns))
        return drawn

    drawn = drawn_as(wide=True)
    for left_out in ("", *_LEFT_OUT):
        if _fits(drawn, width):
            break
        columns = [column for column in columns if column != left_out]
        drawn = drawn_as(wide=False)
    return drawn


def _fits(drawn: Table, width: int) -> bool:
    unbounded = Console(width=10 * width)
    return Measurement.get(unbounded, unbounded.options, drawn).maximum <= width


def _empty_table(comparison: Comparison, *, plain: bool, wide: bool) -> Table:
    title = f"{pluralize(comparison.buyers, 'buyer')}, {pluralize(comparison.stock, 'item')}"
    if comparison.runs:
        title += f", all clicks within {max(run.send_spread_ms for run in comparison.runs):.0f} ms"
    if wide and not plain:
        return Table(title=title, box=box.ROUNDED)
    lines = DASHES if plain else box.SIMPLE
    return Table(title=title, box=lines, padding=(0, int(wide)), show_edge=False, pad_edge=False)


def _count(number: int) -> Text:
    """A count that stands out unless it is 0."""
    return Text(str(number), _BAD if number else _QUIET)


def _pair(measured: Percentiles) -> Text:
    return Text("-" if measured.p50 is None else f"{measured.p50:.0f}/{measured.p99:.0f}")


def _verdict(run: Run) -> Text:
    return Text(run.verdict, _GOOD if run.exact else _BAD)


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
