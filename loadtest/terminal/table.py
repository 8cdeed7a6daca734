"""The comparison as a table that can be read from the back of a room, and still in 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from loadtest.results.comparison import Comparison, Percentiles, Run
from loadtest.results.text import counted

# What the table takes with all columns and lines around them, and what it takes without those that others tell as well.
_WIDE, _USUAL = 115, 80
DASHES = box.Box("    \n    \n -- \n" + "    \n" * 5, ascii=True)
_GOOD, _BAD, _QUIET = "bold green", "bold red", "dim"


@dataclass(frozen=True)
class _Column:
    title: str
    cell: Callable[[Run], Text]
    left: bool = False


def table(comparison: Comparison, *, width: int, plain: bool) -> Table:
    """A row for each guard.

    Args:
        comparison: what to show.
        width: characters there are in a line.
        plain: only characters that every terminal and log has.
    """
    wide = width >= _WIDE
    title = f"{counted(comparison.buyers, 'buyer')}, {counted(comparison.stock, 'item')}"
    if wide and not plain:
        drawn = Table(title=title, box=box.ROUNDED)
    else:
        drawn = Table(title=title, box=DASHES if plain else box.SIMPLE, padding=(0, int(wide)), show_edge=False)
    columns = _columns(width, failures=any(run.failed for run in comparison.runs))
    for column in columns:
        drawn.add_column(column.title, justify="left" if column.left else "right", no_wrap=column is not _VERDICT)
    for run in comparison.runs:
        drawn.add_row(*(column.cell(run) for column in columns))
    return drawn


def _columns(width: int, *, failures: bool) -> list[_Column]:
    """Where there is little room, the verdict alone tells what was oversold; failures are shown if there are any.

    Where there is less, it goes before who was sent away, how long they waited, and the promise.
    """
    usual = width >= _USUAL
    conditions = (
        (_OVERSOLD, width >= _WIDE),
        (_SOLD_OUT, usual),
        (_FAILED, failures),
        (_WAITED, usual),
        (_PROMISE, usual),
    )
    left_out = [column for column, shown in conditions if not shown]
    return [column for column in _COLUMNS if column not in left_out]


def _count(number: int) -> Text:
    """Zero recedes; anything else is what one should see."""
    return Text(str(number), _BAD if number else _QUIET)


def _pair(measured: Percentiles) -> Text:
    return Text("-" if measured.p50 is None else f"{measured.p50:.0f}/{measured.p99:.0f}")


def _verdict(run: Run) -> Text:
    return Text(run.verdict, _GOOD if run.verdict.startswith("EXACT") else _BAD)


def _promise(run: Run) -> Text:
    return Text(run.promise_result, {"none": _QUIET, "kept": _GOOD}.get(run.promise_result, _BAD))


_OVERSOLD = _Column("over-\nsold", lambda run: _count(run.oversold))
_SOLD_OUT = _Column("sold\nout", lambda run: Text(str(run.outcomes["sold_out"])))
_FAILED = _Column("failed", lambda run: _count(run.failed))
_WAITED = _Column("waited ms\np50/p99", lambda run: _pair(run.waited_ms))
_VERDICT = _Column("verdict", _verdict, left=True)
_PROMISE = _Column("promise", _promise, left=True)
_COLUMNS = (
    _Column("guard", lambda run: Text(run.guard, "bold"), left=True),
    _Column("sold", lambda run: Text(str(run.orders))),
    _OVERSOLD,
    _Column("lost\nupdates", lambda run: _count(run.lost_updates)),
    _SOLD_OUT,
    _FAILED,
    _Column("wall\ns", lambda run: Text(f"{run.wall_s:.2f}" if run.wall_s < 10 else f"{run.wall_s:.1f}")),
    _WAITED,
    _Column("took ms\np50/p99", lambda run: _pair(run.purchase_ms)),
    _VERDICT,
    _PROMISE,
)
TITLES = tuple(column.title.replace("-\n", "").replace("\n", " ") for column in _COLUMNS)


def cells(run: Run) -> list[str]:
    """One run as plain text, a cell for each of `TITLES`."""
    return [column.cell(run).plain for column in _COLUMNS]
