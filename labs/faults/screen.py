"""What a room sees while a fault is played: the counter, the holder, and its lease running down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rich import box
from rich.cells import set_cell_size
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from loadtest.language import ENGLISH, Message, Value, verdict_in
from loadtest.results.audit import audit
from loadtest.results.record import Record, Sample
from loadtest.terminal import DASHES

_BAR = 24  # characters
_NAME = 12
_LOW_S = 1.0  # a lease that is renewed in time does not get there
_AS_EXPECTED = {True: ("yes", "bold green"), False: ("NO", "bold red"), None: ("-", "yellow")}
_GOOD, _BAD, _QUIET = "green", "bold red", "dim"


def sale_picture(label: str, sample: Sample, total: int, language: str = ENGLISH) -> RenderableType:
    """A picture of at most 80 columns: counter, holder, and the instances that stand still or do not run."""
    title = Text.assemble((label, "bold"), (f"  {sample.at_ms / 1000:.1f} s", _QUIET))
    rows = Table.grid(padding=(0, 2))
    for name, bar, words in _rows(sample, total, partial(_text, language)):
        rows.add_row(Text("  " + set_cell_size(name, _NAME)), bar, words)
    return Group(title, rows)


def _text(language: str, text: str, /, **values: Value) -> str:
    return Message(text, values).in_language(language)


def _rows(now: Sample, total: int, say: Callable[..., str]) -> Iterator[tuple[str, RenderableType, Text]]:
    blank = Text(" " * _BAR)
    yield say("stock"), ProgressBar(total=max(total, 1), completed=now.stock or 0, width=_BAR), _stock(now, total, say)
    states = {**dict.fromkeys(now.frozen, say("FROZEN")), **dict.fromkeys(now.dead, say("DEAD"))}
    if now.holder and now.lease_s is not None and now.granted_s is not None:
        style = _GOOD if now.lease_s > _LOW_S else _BAD
        bar = ProgressBar(now.granted_s, now.lease_s, _BAR, complete_style=style, finished_style=style)
        words = [Text(say("lease {s} s", s=round(now.lease_s))), Text(states.pop(now.holder, ""), _BAD)]
        words += [Text(say("holds"), "bold green"), Text(say("{n} wait", n=now.waiters) if now.waiters else "", _QUIET)]
        yield now.holder, bar, Text("  ").join(filter(None, words))
    for name, state in states.items():
        yield name, blank, Text(state, _BAD)
    if now.holder is None and now.waiters is None:
        yield "etcd", blank, Text(say("unavailable"), _BAD)


def _stock(now: Sample, total: int, say: Callable[..., str]) -> Text:
    if now.stock is None or now.orders is None:
        return Text(say("Redis is unavailable"), _BAD)
    found = now.stock + now.orders
    style = "" if found == total else _BAD
    return Text.assemble(say("{left} left + {sold} sold = ", left=now.stock, sold=now.orders), (str(found), style))


def results_table(results: Sequence[Record], *, plain: bool, language: str = ENGLISH) -> Table:
    """A row for each result, in at most 80 columns; the rows of a scenario stand together, under its name.

    With `plain`, only characters that every terminal and log has.
    """
    say = partial(_text, language)
    drawn = Table(box=DASHES if plain else box.SIMPLE, padding=(0, 0), show_edge=False)
    for title in ("scenario", "guard", "expected", "observed"):
        drawn.add_column(say(title), no_wrap=title != "observed")
    for title in ("sold +\nstock", "lost\nupdates", "stall\nmax s"):
        drawn.add_column(say(title), justify="right", no_wrap=True)
    drawn.add_column(say("as ex-\npected"), no_wrap=True)
    above = ""
    for result in results:
        drawn.add_row(Text("" if result.name == above else result.name, "bold"), *_cells(result, say, language))
        above = result.name
    return drawn


def _cells(result: Record, say: Callable[..., str], language: str) -> list[Text | str]:
    audited, observed = audit(result), verdict_in(language, result.verdict["findings"])
    total = audited.sold + audited.stock_left
    as_expected, style = _AS_EXPECTED[result.as_expected]
    return [
        result.guard,
        say(result.expectation.expected) if result.expectation else "",
        Text(say("no verdict"))
        if result.as_expected is None
        else Text(observed, "" if result.verdict["exact"] else _BAD),
        Text(str(total), "" if total == audited.stock else _BAD),
        Text(str(audited.lost_updates), _BAD if audited.lost_updates else _QUIET),
        f"{audited.longest_stall_ms / 1000:.1f}",
        Text(say(as_expected), style),
    ]
