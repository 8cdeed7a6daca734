"""The console of the commands, and the comparison as a table: from the back of a room, and still in 80 columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from loadtest.language import ENGLISH, heading_in, sale_in, text_in, verdict_in
from loadtest.results.comparison import Comparison, GuardRun, Percentiles
from loadtest.results.record import Sample

DASHES = box.Box("    \n    \n -- \n" + "    \n" * 5, ascii=True)
_GOOD, _BAD, _QUIET = "bold green", "bold red", "dim"
_LOG_WIDTH = 120


def console() -> Console:
    """Standard output: plain text if it is not a terminal, without colour if NO_COLOR is set."""
    screen = Console(highlight=False)
    if not (screen.is_terminal or os.environ.get("COLUMNS")):
        screen.width = _LOG_WIDTH
    return screen


@dataclass(frozen=True)
class Running:
    """The guard under which buyers buy, since when, and the sale as it was seen last."""

    guard: str
    seconds: float = 0.0
    sample: Sample | None = None

    def cells(self, language: str) -> dict[str, Text]:
        """What its row has already, by column."""
        say = partial(text_in, language)
        row = {"guard": Text(self.guard, "bold"), "verdict": Text(say("running.begins"), _QUIET)}
        if self.sample is None:
            return row
        row["wall"] = Text(f"{self.seconds:.1f}", _QUIET)
        if self.sample.stock is None or self.sample.orders is None:
            return row | {"verdict": Text(say("running.no_redis"), _BAD)}
        left = Text(say("running.left", n=self.sample.stock), "bold")
        row |= {"sold": Text(str(self.sample.orders)), "verdict": left}
        waiters = self.sample.waiters
        return row | ({"waited": Text(say("running.waiting", n=waiters))} if waiters else {})


def comparison_table(
    comparison: Comparison,
    *,
    width: int,
    plain: bool,
    guards: Sequence[str] = (),
    running: Running | None = None,
    language: str = ENGLISH,
) -> Table:
    """A row for each guard, as many columns as fit into `width` characters.

    With `plain`, only characters that every terminal and log has. A table that fills keeps room for all `guards`, and
    has a row for the one that is `running`.
    """
    columns = [column for column in _CELLS if column != "failed" or any(run.failed for run in comparison.runs)]
    names = [*guards, *(run.guard for run in comparison.runs)]
    widths = {
        "guard": max(map(len, names), default=0),
        "verdict": cell_len(text_in(language, "verdict.oversold", n=comparison.buyers)),
    }
    rows = [{column: cell(run, language) for column, cell in _CELLS.items()} for run in comparison.runs]
    rows += [running.cells(language)] if running else []

    def drawn_as(*, wide: bool) -> Table:
        drawn = _empty_table(comparison, plain=plain, wide=wide, language=language)
        for column in columns:
            justify: Literal["left", "right"] = "left" if column in _WORDS else "right"
            heading, no_wrap = text_in(language, f"head.{column}"), column != "verdict"
            drawn.add_column(heading, justify=justify, no_wrap=no_wrap, min_width=widths.get(column))
        for row in rows:
            drawn.add_row(*(row.get(column, "") for column in columns))
        return drawn

    drawn = drawn_as(wide=True)
    for left_out in _LEFT_OUT:  # the first one in every narrow table, so that tables of one width are alike
        if _fits(drawn, width):
            break
        columns = [column for column in columns if column != left_out]
        drawn = drawn_as(wide=False)
    return drawn


def _fits(drawn: Table, width: int) -> bool:
    unbounded = Console(width=10 * width)
    return Measurement.get(unbounded, unbounded.options, drawn).maximum <= width


def _empty_table(comparison: Comparison, *, plain: bool, wide: bool, language: str) -> Table:
    title = sale_in(language, comparison.buyers, comparison.stock)
    if comparison.runs:
        spread_ms = max(run.send_spread_ms for run in comparison.runs)
        title = text_in(language, "clicks_within", sale=title, ms=f"{spread_ms:.0f}")
    if wide and not plain:
        return Table(title=title, box=box.ROUNDED)
    lines = DASHES if plain else box.SIMPLE
    return Table(title=title, box=lines, padding=(0, int(wide)), show_edge=False, pad_edge=False)


def _count(number: int) -> Text:
    """A count that stands out unless it is 0."""
    return Text(str(number), _BAD if number else _QUIET)


def _pair(measured: Percentiles) -> Text:
    return Text("-" if measured.p50 is None else f"{measured.p50:.0f}/{measured.p99:.0f}")


def _verdict(run: GuardRun, language: str) -> Text:
    return Text(verdict_in(language, run.findings), _GOOD if run.exact else _BAD)


def _promise(run: GuardRun, language: str) -> Text:
    style = {"none": _QUIET, "kept": _GOOD}.get(run.promise_result, _BAD)
    return Text(text_in(language, f"promise.{run.promise_result}"), style)


_CELLS: dict[str, Callable[[GuardRun, str], Text]] = {
    "guard": lambda run, _: Text(run.guard, "bold"),
    "sold": lambda run, _: Text(str(run.orders)),
    "oversold": lambda run, _: _count(run.oversold),
    "lost_updates": lambda run, _: _count(run.lost_updates),
    "sold_out": lambda run, _: Text(str(run.outcomes["sold_out"])),
    "failed": lambda run, _: _count(run.failed),
    "wall": lambda run, _: Text(f"{run.wall_s:.2f}" if run.wall_s < 10 else f"{run.wall_s:.1f}"),
    "waited": lambda run, _: _pair(run.waited_ms),
    "took": lambda run, _: _pair(run.purchase_ms),
    "verdict": _verdict,
    "promise": _promise,
}
_WORDS = ("guard", "verdict", "promise")
_LEFT_OUT = ("sold_out", "waited", "promise", "took", "lost_updates", "wall", "failed")  # the first one first


def titles_in(language: str) -> dict[str, str]:
    """The heading of each column in one line, by the English one."""
    return {heading_in(ENGLISH, column): heading_in(language, column) for column in _CELLS}


TITLES = tuple(titles_in(ENGLISH))


def cells(run: GuardRun, language: str = ENGLISH) -> dict[str, str]:
    """The cells of a run as plain text, by `TITLES`."""
    return {title: cell(run, language).plain for title, cell in zip(TITLES, _CELLS.values(), strict=True)}
