"""Real time: what the buyers saw, and when, held against the ledger.

A purchase is made between its buyer's first request and the first "sold" about it. So an order cannot precede one that
was acknowledged before its own buyer sent anything; and "sold out" is premature while an item is there for a buyer who
has sent nothing yet. [Herlihy, Wing: Linearizability, 1990, for these two cases in O(n log n).]

In doubt, the guard is right: a buyer who is not known came first of all, and a purchase in doubt may have been made and
lost, or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from app.contract.orders import Order
from app.contract.outcomes import Outcome
from loadtest.results.answer import Answer

K = TypeVar("K")
SLACK_MS = 1.0  # buyers of one machine share its clock
SEVERAL_MACHINES_MS = 1000.0  # more than clocks differ that are set by NTP


@dataclass(frozen=True)
class OutOfOrder:
    """Two orders of one item that contradict real time.

    Attributes:
        order: stands before `earlier`.
        sent_ms: the first request of its buyer.
        earlier: was acknowledged before that.
        answered_ms: the first "sold" about it.
    """

    order: Order
    sent_ms: float
    earlier: Order
    answered_ms: float


@dataclass(frozen=True)
class Premature:
    """An answer "sold out" while an item was left.

    Attributes:
        answer: this one.
        order: took an item later; None if an item was never sold.
        sent_ms: the first request of its buyer, after that answer; infinite if there is none.
    """

    answer: Answer
    order: Order | None
    sent_ms: float


class _Sale(NamedTuple):
    """A moment from which on an item can have been sold, to this order if it is known."""

    from_ms: float
    order: Order | None


class History:
    """The answers of all buyers to all their requests.

    Args:
        slack_ms: by how much the buyers' clocks may differ.
    """

    def __init__(self, answers: Sequence[Answer], *, slack_ms: float) -> None:
        self._answers = answers
        self._slack_ms = slack_ms
        self._sent: dict[tuple[str, str], float] = {}  # by buyer and item
        self._acknowledged: dict[tuple[str | None, str], float] = {}  # by order and buyer
        for answer in answers:
            _note_first(self._sent, (answer.buyer, answer.item), answer.sent_ms)
            if answer.outcome is Outcome.SOLD:
                _note_first(self._acknowledged, (answer.order, answer.buyer), answer.answered_ms)

    def out_of_order(self, ledger: Iterable[Order]) -> list[OutOfOrder]:
        """The orders that precede one of their item that was acknowledged before their buyers sent anything."""
        return [pair for entries in by_item(ledger).values() for pair in self._out_of_order(entries)]

    def premature(self, ledger: Sequence[Order], stock: int) -> list[Premature]:
        """The answers "sold out" before the last of `stock` items can have been sold.

        Empty if acknowledged orders are missing: then Redis has lost some, and the items of before were sold again.
        """
        entries = {(entry.order, entry.buyer) for entry in ledger}
        if not self._acknowledged.keys() <= entries:
            return []
        last = {item: self._last_sale(item, ledger, stock) for item in {answer.item for answer in self._answers}}
        return [
            Premature(answer, last[answer.item].order, last[answer.item].from_ms)
            for answer in self._answers
            if answer.outcome is Outcome.SOLD_OUT and answer.answered_ms + self._slack_ms < last[answer.item].from_ms
        ]

    def _out_of_order(self, entries: Sequence[Order]) -> Iterator[OutOfOrder]:
        places = {(entry.order, entry.buyer): place for place, entry in reversed(list(enumerate(entries)))}
        first: tuple[float, Order] | None = None  # of the orders behind
        for place, entry in reversed(list(enumerate(entries))):
            sent_ms, key = self._sent_ms(entry), (entry.order, entry.buyer)
            if first and first[0] + self._slack_ms < sent_ms:
                yield OutOfOrder(entry, sent_ms, first[1], first[0])
            answered_ms = self._acknowledged.get(key)
            # Of an order that is there twice, the answer was about the first.
            if places[key] == place and answered_ms is not None and (first is None or answered_ms < first[0]):
                first = answered_ms, entry

    def _last_sale(self, item: str, ledger: Iterable[Order], stock: int) -> _Sale:
        """The sale by which all items can have been sold at the earliest."""
        ours = [entry for entry in ledger if entry.item == item]
        sales = [_Sale(from_ms, None) for from_ms in self._doubtful(item, {entry.buyer for entry in ours})]
        latest = _Sale(-math.inf, None)
        for entry in ours:  # an order is not there before those that precede it
            latest = max(latest, _Sale(self._sent_ms(entry), entry), key=lambda sale: sale.from_ms)
            sales.append(latest)
        if stock <= 0:
            return _Sale(-math.inf, None)
        sales.sort(key=lambda sale: sale.from_ms)
        return sales[stock - 1] if stock <= len(sales) else _Sale(math.inf, None)

    def _doubtful(self, item: str, served: set[str]) -> list[float]:
        """When the buyers in doubt without an order sent their first request."""
        doubtful = {each.buyer for each in self._answers if each.in_doubt and each.item == item}
        return [self._sent[buyer, item] for buyer in doubtful - served]

    def _sent_ms(self, entry: Order) -> float:
        return self._sent.get((entry.buyer, entry.item), -math.inf)


def by_item(ledger: Iterable[Order]) -> dict[str, list[Order]]:
    """The orders of each item: those of several items may be written at once, and have no common order."""
    items: dict[str, list[Order]] = {}
    for order in ledger:
        items.setdefault(order.item, []).append(order)
    return items


def _note_first(times: dict[K, float], key: K, at_ms: float) -> None:
    times[key] = min(at_ms, times.get(key, math.inf))
