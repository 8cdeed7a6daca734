"""What the terminal shows: tables, and what a buyer would complain about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
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

    def say(text: str) -> str:
        return Message(text).in_language(language)

    table = Table(
        title=title.in_language(language) if title else None, box=DASHES, padding=0, show_edge=False, pad_edge=False
    )
    with_faults = any(each.fault for each in judged)
    for heading in (*(["fault"] if with_faults else []), "way"):
        table.add_column(say(heading), no_wrap=True)
    for heading in ("orders", "charges", "refunds", "wall s"):
        table.add_column(say(heading), justify="right")
    for heading in ("verdict", "as expected"):
        table.add_column(say(heading))
    for each in judged:
        result, yes = each.result, {True: "yes", False: "NO", None: "?"}[each.as_expected]
        numbers = [len(result.orders), result.charged, result.refunds]
        table.add_row(
            *([each.fault] if with_faults else []),
            result.way,
            *map(str, numbers),
            f"{result.wall_s:.1f}",
            Text(sentence(result.verdict, language), _GOOD if result.verdict.is_exact else _BAD),
            Text(say(yes), {True: _GOOD, False: _BAD, None: _UNKNOWN}[each.as_expected]),
        )
    return table


def print_complaints(screen: Console, judged: Sequence[Judged], language: str) -> None:
    """Name an item that was paid for twice, if there is one, and what the refunds were for."""
    for each in judged:
        if twice := each.result.paid_twice():
            item, (first, *others) = twice
            text = Message.of("{way}: item {item} was paid for by {one}, and by {other}", way=each.result.way)
            text.values.update(item=item, one=first, other=others[0])
            screen.print(text.in_language(language), markup=False)
