"""Critical sections that were open at the same time.

That breaks mutual exclusion. Under a fenced guard it may happen (a frozen holder still believes in its lock), and does
no harm, because only one of them writes. It does harm where both wrote, and each had read before the other wrote: they
raced. tests/data/overlaps.json holds this rule to that of the board's page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from loadtest.results.answer import Outcome
from loadtest.results.record import CriticalSection

SOLD = Outcome.SOLD.value
# Pairs that did no harm are not kept beyond that: without a lock, thousands of retries make millions of them.
MOST_KEPT = 10_000


@dataclass(frozen=True)
class Overlap:
    """Two critical sections that were open at the same time, in milliseconds of the record."""

    first: CriticalSection
    second: CriticalSection
    from_ms: float
    to_ms: float
    raced: bool


@dataclass(frozen=True)
class Overlaps:
    """All pairs that were open at once, about the same item; to iterate over in the order in which they began.

    Sections of one hold share its token and do not count as two; those without an end are left out.

    Attributes:
        count: of all pairs.
        spans: the times in which there was any, in order and without touching.
        pairs: those that raced, and the first `MOST_KEPT` of the others.
    """

    count: int = 0
    spans: list[tuple[float, float]] = field(default_factory=list)
    pairs: list[Overlap] = field(default_factory=list)

    def __iter__(self) -> Iterator[Overlap]:
        return iter(self.pairs)

    @classmethod
    def of(cls, sections: Iterable[CriticalSection]) -> Overlaps:
        count, kept = 0, 0
        spans: list[tuple[float, float]] = []
        pairs: list[Overlap] = []
        for second, met in _meetings(sections):
            count += len(met)
            _extend(spans, second.entered, min(second.left, max(first.left for first in met)))
            for first in met:
                raced = first.wrote and second.wrote and _raced(first.section, second.section)
                if raced or kept < MOST_KEPT:
                    kept += not raced
                    to_ms = min(first.left, second.left)
                    pairs.append(Overlap(first.section, second.section, second.entered, to_ms, raced))
        return cls(count, spans, pairs)


@dataclass(frozen=True, slots=True, eq=False)
class _Ended:
    """A section that ended, with what is asked of it again and again."""

    section: CriticalSection
    entered: float
    left: float
    hold: tuple[object, ...]
    items: frozenset[str]
    wrote: bool


def _meetings(sections: Iterable[CriticalSection]) -> Iterator[tuple[_Ended, list[_Ended]]]:
    """Each section, as it entered, with those it found inside; a section that found none is left out."""
    ended = [
        _Ended(each, each.entered_ms, each.left_ms, hold_of(each), frozenset(each.item.split(",")), wrote(each))
        for each in sections
        if each.left_ms is not None
    ]
    inside: list[_Ended] = []
    for second in sorted(ended, key=lambda each: (each.entered, each.left)):
        inside = [first for first in inside if first.left > second.entered]
        met = [first for first in inside if first.hold != second.hold and first.items & second.items]
        if met:
            yield second, met
        inside.append(second)


def _extend(spans: list[tuple[float, float]], from_ms: float, to_ms: float) -> None:
    """Add a time that begins no earlier than the last one."""
    if spans and from_ms <= spans[-1][1]:
        spans[-1] = spans[-1][0], max(spans[-1][1], to_ms)
    else:
        spans.append((from_ms, to_ms))


def joined(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Times in order, put together where they touch."""
    spans: list[tuple[float, float]] = []
    for from_ms, to_ms in sorted(times):
        _extend(spans, from_ms, to_ms)
    return spans


def wrote(section: CriticalSection) -> bool:
    """Whether it put an order into the ledger; a replay only found one."""
    return section.outcome == SOLD and section.cause is None


def hold_of(section: CriticalSection) -> tuple[object, ...]:
    """What sections of one hold have in common, and no others."""
    alone = section.order if section.token is None else json.dumps(section.token)
    return section.instance, section.pid, alone


def _raced(first: CriticalSection, second: CriticalSection) -> bool:
    """Whether each read before the other's write was sent; who reads and writes at once reads when it writes."""
    pairs = ((first, second), (second, first))
    return all(
        _time(reader.read_ms, reader.commit_ms) < _time(writer.commit_ms, writer.left_ms) for reader, writer in pairs
    )


def _time(*candidates: float | None) -> float:
    return next((each for each in candidates if each is not None), 0.0)
