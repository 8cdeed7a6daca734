"""The fence: once a holder has read, no write under a lower token may land.

Sections that overlap break nothing by that alone: a holder that was frozen after its write is right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.contract.orders import Order, Token
from loadtest.results.history import by_item
from loadtest.results.record import CriticalSection


@dataclass(frozen=True)
class PastFence:
    """A write that landed although a higher token had been there.

    Attributes:
        write: the section that sold, under the lower token.
        sent_ms: its write.
        read: the section with the higher token.
        read_ms: the answer to its read, before that write was sent.
    """

    write: CriticalSection
    sent_ms: float
    read: CriticalSection
    read_ms: float


def past_fence(sections: Iterable[CriticalSection]) -> list[PastFence]:
    """The sold writes that were sent after a read under a higher token of the same item was answered."""
    items: dict[str, list[CriticalSection]] = {}
    for section in sections:
        if section.token is not None:
            items.setdefault(section.item, []).append(section)
    return [late for each in items.values() for late in _past_fence(each)]


def _past_fence(sections: Sequence[CriticalSection]) -> Iterator[PastFence]:
    reads = deque(sorted(_timed(sections, lambda each: each.answered_ms), key=_at_ms))
    highest: tuple[float, CriticalSection] | None = None
    for sent_ms, write in sorted(_timed(sections, lambda each: each.commit_ms if each.wrote else None), key=_at_ms):
        while reads and reads[0][0] < sent_ms:
            read = reads.popleft()
            if highest is None or rank(read[1].token) > rank(highest[1].token):
                highest = read
        if highest and rank(highest[1].token) > rank(write.token):
            yield PastFence(write, sent_ms, highest[1], highest[0])


def token_regressions(ledger: Iterable[Order]) -> list[tuple[Order, Order]]:
    """The orders with a lower token than one before it in the ledger of their item, and that order."""
    return [pair for orders in by_item(ledger).values() for pair in _token_regressions(orders)]


def _token_regressions(orders: Iterable[Order]) -> Iterator[tuple[Order, Order]]:
    highest: Order | None = None
    for order in orders:
        if order.token is None:
            continue
        if highest is not None and rank(order.token) < rank(highest.token):
            yield order, highest
        else:
            highest = order


def _timed(
    sections: Iterable[CriticalSection], time_of: Callable[[CriticalSection], float | None]
) -> Iterator[tuple[float, CriticalSection]]:
    return ((at_ms, each) for each in sections if (at_ms := time_of(each)) is not None)


def _at_ms(timed: tuple[float, CriticalSection]) -> float:
    return timed[0]


def rank(token: Token | None) -> list[int]:
    """A token, to be compared with others: a turn comes after its whole hold, and none has no rank."""
    return [] if token is None else [token] if isinstance(token, int) else token
