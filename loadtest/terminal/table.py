"""The comparison as a table that can be read from the back of a room, and still in 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from loadtest.results.comparison import Comparison, Percentiles, Run
from loadtest.results.text import counted

DASHES = box.Box("    \n    \n -- \n" + "    \n" * 5, ascii=True)
_GOOD, _BAD, _QUIET = "bold green", "bold red", "dim"


@dataclass(frozen=True)
class _Column:
    title: str
    cell: Callable[[Run], Text]
    left: bool = False


def table(comparison: Comparison, *, width: int, plain: bool) -> Table:
    """A row for each guard, as many columns as fit into `width` characters.

    With `plain`, only characters that every terminal and log has.
    """
    rare = {
        _FAILED: any(run.failed for run in comparison.runs),
        _NOT_OPEN: any(run.not_open for run in comparison.runs),
    }
    columns = [column for column in _COLUMNS if rare.get(column, True)]
    drawn = _draw(comparison, columns, plain=plain, wide=True)
    for left_out in (None, *_LEFT_OUT):
        if _fits(drawn, width):
            break
        columns = [column for column in columns if column is not left_out]
        drawn = _draw(comparison, columns, plain=plain, wide=False)
    return drawn


def _fits(drawn: Table, width: int) -> bool:
    unbounded = Console(width=10 * width)
    return Measurement.get(unbounded, unbounded.options, drawn).maximum <= width


def _draw(comparison: Comparison, columns: Sequence[_Column], *, plain: bool, wide: bool) -> Table:
    title = f"{counted(comparison.buyers, 'buyer')}, {counted(comparison.stock, 'item')}"
    if wide and not plain:
        drawn = Table(title=title, box=box.ROUNDED)
    else:
        drawn = Table(title=title, box=DASHES if plain else box.SIMPLE, padding=(0, int(wide)), show_edge=False)
    for column in columns:
        drawn.add_column(column.title, justify="left" if column.left else "right", no_wrap=column is not _VERDICT)
    for run in comparison.runs:
        drawn.add_row(*(column.cell(run) for column in columns))
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


_LOST = _Column("lost\nupdates", lambda run: _count(run.lost_updates))
_WALL = _Column("wall\ns", lambda run: Text(f"{run.wall_s:.2f}" if run.wall_s < 10 else f"{run.wall_s:.1f}"))
_TOOK = _Column("took ms\np50/p99", lambda run: _pair(run.purchase_ms))
_OVERSOLD = _Column("over-\nsold", lambda run: _count(run.oversold))
_SOLD_OUT = _Column("sold\nout", lambda run: Text(str(run.outcomes["sold_out"])))
_NOT_OPEN = _Column("not\nopen", lambda run: Text(str(run.not_open)))
_FAILED = _Column("failed", lambda run: _count(run.failed))
_WAITED = _Column("waited ms\np50/p99", lambda run: _pair(run.waited_ms))
_VERDICT = _Column("verdict", _verdict, left=True)
_PROMISE = _Column("promise", _promise, left=True)
_COLUMNS = (
    _Column("guard", lambda run: Text(run.guard, "bold"), left=True),
    _Column("sold", lambda run: Text(str(run.orders))),
    _OVERSOLD,
    _LOST,
    _SOLD_OUT,
    _NOT_OPEN,
    _FAILED,
    _WALL,
    _WAITED,
    _TOOK,
    _VERDICT,
    _PROMISE,
)
_LEFT_OUT = (_OVERSOLD, _SOLD_OUT, _NOT_OPEN, _WAITED, _PROMISE, _TOOK, _LOST, _WALL, _FAILED)  # in this order
TITLES = tuple(column.title.replace("-\n", "").replace("\n", " ") for column in _COLUMNS)


def cells(run: Run) -> list[str]:
    """The cells of a run as plain text, one for each of `TITLES`."""
    return [column.cell(run).plain for column in _COLUMNS]
