"""Lost updates: the writes that overwrote sales, judged by what each purchase read and wrote.

Redis changes the stock counter and the ledger in one step, so a ledger is in the order of its writes. A write loses
``after + 1 - before`` sales: 0 if it took one item from what it found. The number is negative if the purchase had read
before sales were overwritten, and so brings some back. All of them together are the orders missing from the counter,
whatever the clocks say. app/board/static/slow/losses.js has the same rule; tests/data/losses.json holds both to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from app.contract.orders import Order
from app.contract.outcomes import Outcome
from loadtest.results.history import by_item
from loadtest.results.record import CriticalSection

_FIRST = -1  # the number of the counter before the first write
_JUST_MS = 1e-4


@dataclass(frozen=True)
class Write:
    """An order as it came into its ledger.

    Attributes:
        section: where it was written; None if that was not logged.
        before, after: the counter; None from a write on of which an old record does not have what it wrote.
        overwrote: the sales that the counter had before this write, and not after it.
        at_ms: the latest time at which it can have been made; None if it is not known.
    """

    entry: Order
    section: CriticalSection | None
    before: int | None
    after: int | None
    overwrote: tuple[Order, ...] = ()
    at_ms: float | None = None

    @property
    def lost(self) -> int:
        """Sales that it lost; negative if it brought some back."""
        return 0 if self.before is None or self.after is None else self.after + 1 - self.before


@dataclass(frozen=True)
class Losses:
    """The writes of a sale, in the order of its ledgers.

    Attributes:
        pairs: each sale that is missing from the counter at the end, and the write that overwrote it.
    """

    writes: Sequence[Write] = ()
    pairs: Sequence[tuple[Order, Write]] = ()

    @classmethod
    def of(cls, ledger: Iterable[Order], sections: Sequence[CriticalSection], stock: int) -> Losses:
        """Walk each ledger, from `stock` items on."""
        walks: list[_Walk] = []
        wrote = _by_order(sections)
        for entries in by_item(ledger).values():
            walk = _Walk(stock)
            for entry in entries:
                walk.take(entry, wrote.pop(entry.order, None))
            walks.append(walk)
        writes = [write for walk in walks for write in _placed(walk.writes, sections)]
        return cls(writes, [pair for walk in walks for pair in walk.pairs])

    @property
    def total(self) -> int:
        """Orders missing from the counter, as far as the sections tell."""
        return sum(write.lost for write in self.writes)

    @property
    def losing(self) -> list[Write]:
        """The writes that lost sales."""
        return [write for write in self.writes if write.lost > 0]


class _Walk:
    """One ledger.

    Each write stands upon the one whose number it read. So the counter has the sales from the last write down, and a
    write that stands further down than on the one before it overwrites those in between.
    """

    def __init__(self, stock: int) -> None:
        self.writes: list[Write] = []
        self._counter: int | None = stock
        self._upon: list[int] = []  # of each write, by its number
        self._last_with = {stock: _FIRST}  # the last write that left this counter
        self._over: dict[int, int] = {}  # the write over each sale that is missing now

    @property
    def pairs(self) -> list[tuple[Order, Write]]:
        return [(self.writes[sale].entry, self.writes[over]) for sale, over in sorted(self._over.items())]

    def take(self, entry: Order, section: CriticalSection | None) -> None:
        before, after, number = self._counter, _after(section, self._counter), len(self.writes)
        read = before if after is None else after + 1
        self._upon.append(number - 1 if read in (None, before) else self._last_with.get(read, number - 1))
        gone = self._replace(number)
        self.writes.append(Write(entry, section, before, after, tuple(self.writes[sale].entry for sale in gone)))
        self._counter = after
        if after is not None:
            self._last_with[after] = number

    def _replace(self, number: int) -> list[int]:
        """Note what the counter has no longer, and what it has again, after this write; returns the first."""
        old, new, gone = number - 1, self._upon[number], list[int]()
        while old != new:
            if old > new:
                gone.append(old)
                old = self._upon[old]
            else:
                self._over.pop(new, None)
                new = self._upon[new]
        self._over |= dict.fromkeys(gone, number)
        return sorted(gone)


def _by_order(sections: Iterable[CriticalSection]) -> dict[str, CriticalSection]:
    """The section that wrote each order, if the order is in the ledger: of its attempts the one that sold, or the last.

    If the answer to the write was lost, the section does not know that it sold.
    """
    wrote: dict[str, CriticalSection] = {}
    for section in sections:
        if section.cause != "replayed" and not (section.order in wrote and wrote[section.order].wrote):
            wrote[section.order] = section
    return wrote


def _after(section: CriticalSection | None, before: int | None) -> int | None:
    """The counter after a write: one less than the purchase had read, or than a script found."""
    if section and section.outcome == Outcome.SOLD and section.stock is not None:
        return section.stock
    if section and section.stock_read is not None:
        return section.stock_read - 1
    if section and section.read_ms is not None:
        return None
    return None if before is None else before - 1


def _placed(writes: Sequence[Write], sections: Iterable[CriticalSection]) -> list[Write]:
    """The writes with their times: before the answer, the next write, and each read that can have seen no other one."""
    first = {write.after: place for place, write in reversed(list(enumerate(writes)))}
    reads: dict[int, list[float]] = {}
    for section in sections:
        if section.answered_ms is not None and section.stock_read in first:
            reads.setdefault(first[section.stock_read], []).append(section.answered_ms)
    placed, next_ms = list[Write](), math.inf
    for place, write in reversed(list(enumerate(writes))):
        at_ms = _latest(write.section, reads.get(place, []), next_ms)
        placed.append(replace(write, at_ms=at_ms))
        next_ms = next_ms if at_ms is None else at_ms
    return placed[::-1]


def _latest(section: CriticalSection | None, reads: Iterable[float], next_ms: float) -> float | None:
    if section is None or section.commit_ms is None or section.left_ms is None:
        return None
    answered = next((each.at_ms for each in section.points if each.name == "wrote"), section.left_ms)
    seen = [at_ms for at_ms in reads if section.commit_ms <= at_ms < answered]
    return min(next_ms - _JUST_MS, max(section.commit_ms, min([answered, *seen]) - _JUST_MS))
