"""What the terminal shows: tables, and what a buyer would complain about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from labs.payment.judge import EXACT, FINDINGS, TOO_SLOW, Verdict
from labs.payment.stage import SaleResult
from loadtest.language import Message
from loadtest.terminal import DASHES

_GOOD, _BAD, _UNKNOWN = "bold green", "bold red", "yellow"


@dataclass(frozen=True)
class Judged:
    """A sale held against what was expected of it: the finding that it must show, "" for none.

    Attributes:
        fault: the name of what was done to it; empty for nothing.
    """

    result: SaleResult
    expected: str
    fault: str = ""

    @property
    def as_expected(self) -> bool | None:
        """None where there is no verdict."""
        verdict = self.result.verdict
        if verdict.is_too_slow:
            return None
        return self.expected in verdict.findings if self.expected else verdict.is_exact


def sentence(verdict: Verdict, language: str) -> str:
    """The verdict in words, such as ``PAID TWICE 3``."""
    if verdict.is_too_slow:
        return Message(TOO_SLOW).in_language(language)
    found = [Message.of(FINDINGS[name], n=n).in_language(language) for name, n in verdict.findings.items()]
    return ", ".join(found) or EXACT


def results_table(judged: Sequence[Judged], language: str, title: Message | None = None) -> Table:
    """A row for each sale."""
    has_fault = any(each.fault for each in judged)
    columns = [name for name in _CELLS if name != ("wall s" if has_fault else "fault")]  # for 80 characters
    table = Table(box=DASHES, padding=0, show_edge=False, pad_edge=False)
    table.title = title.in_language(language) if title else None
    for name in columns:
        heading = Message("as ex-\npected" if name == "as expected" else name).in_language(language)
        table.add_column(heading, justify="right" if name in _NUMBERS else "left", no_wrap=name not in _WRAPPED)
    for each in judged:
        table.add_row(*(_CELLS[name](each, language) for name in columns))
    return table


def _verdict(judged: Judged, language: str) -> Text:
    verdict = judged.result.verdict
    return Text(sentence(verdict, language), _GOOD if verdict.is_exact else _BAD)


def _as_expected(judged: Judged, language: str) -> Text:
    text, style = {True: ("yes", _GOOD), False: ("NO", _BAD), None: ("no verdict", _UNKNOWN)}[judged.as_expected]
    return Text(Message(text).in_language(language), style)


_CELLS: dict[str, Callable[[Judged, str], Text | str]] = {
    "fault": lambda judged, _: judged.fault,
    "way": lambda judged, _: judged.result.way,
    "orders": lambda judged, _: str(len(judged.result.orders)),
    "charges": lambda judged, _: str(judged.result.charged),
    "refunds": lambda judged, _: str(judged.result.refunds),
    "wall s": lambda judged, _: f"{judged.result.wall_s:.1f}",
    "verdict": _verdict,
    "as expected": _as_expected,
}
_NUMBERS, _WRAPPED = ("orders", "charges", "refunds", "wall s"), ("verdict", "as expected")


def complaints(judged: Sequence[Judged], language: str) -> Iterator[str]:
    """An item that was paid for twice, where there is one."""
    for each in judged:
        if twice := each.result.paid_twice():
            item, (one, other, *_) = twice
            text = "{way}: item {item} was paid for by {one}, and by {other}."
            yield Message.of(text, way=each.result.way, item=item, one=one, other=other).in_language(language)
