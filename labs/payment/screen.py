"""What the terminal shows: a table of sales, and what a buyer would complain about."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from labs.payment.contract import REFUNDED, SUCCEEDED
from labs.payment.judge import FINDINGS
from labs.payment.stage import SaleResult
from loadtest.language import Message
from loadtest.terminal import DASHES

NUMBERS = ("orders", "charges", "refunds", "wall s")
AS_EXPECTED = {
    True: ("{verdict}, as expected", "yes", "bold green"),
    False: ("{verdict}, NOT AS EXPECTED", "NO", "bold red"),
    None: ("{verdict}", "no verdict", "yellow"),
}


@dataclass(frozen=True)
class Judged:
    """A sale held against the finding that it must show."""

    result: SaleResult
    expected: str

    @property
    def as_expected(self) -> bool | None:
        """`None` if there is no verdict."""
        return None if "too_slow" in self.result.findings else self.expected in self.result.findings

    @property
    def sentence(self) -> Message:
        """The verdict, and whether it was expected."""
        return Message.of(AS_EXPECTED[self.as_expected][0], verdict=verdict_of(self.result))


def verdict_of(result: SaleResult) -> Message:
    """The verdict in words, such as ``PAID TWICE 3``."""
    first, *others = (Message.of(FINDINGS[name], n=n) for name, n in result.findings.items())
    for other in others:
        first = Message.of("{one}, {other}", one=first, other=other)
    return first


def results_table(judged: Sequence[Judged], language: str, title: Message) -> Table:
    """A row for each sale, in 80 characters."""
    table = Table(title=title.in_language(language), box=DASHES, padding=0, show_edge=False, pad_edge=False)
    for name in ("way", *NUMBERS, "verdict", "as ex-\npected"):
        table.add_column(Message(name).in_language(language), justify="right" if name in NUMBERS else "left")
    for each in judged:
        result, charges = each.result, Counter(each.result.charges.values())
        numbers = (len(result.orders), charges[SUCCEEDED] + charges[REFUNDED], charges[REFUNDED])
        verdict, (_, word, style) = verdict_of(result).in_language(language), AS_EXPECTED[each.as_expected]
        as_expected = Text(Message(word).in_language(language), style)
        table.add_row(result.way, *map(str, numbers), f"{result.wall_s:.1f}", verdict, as_expected)
    return table


def complaint(result: SaleResult) -> Message | None:
    """An item that was paid for twice, if there is one."""
    for one, other in itertools.combinations(result.orders, 2):
        if one.item == other.item:
            names = {"one": one.payment.partition("/")[2], "other": other.payment.partition("/")[2]}
            text = "{way}: item {item} was paid for by {one}, and by {other}."
            return Message.of(text, way=result.way, item=one.item, **names)
    return None
