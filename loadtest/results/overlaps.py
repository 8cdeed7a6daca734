"""Critical sections that were open at the same time.

That breaks mutual exclusion. Under a fenced guard it may happen, because a frozen holder still believes in its lock.
Whether it did harm is told by what the sections read and wrote: see `loadtest.results.losses`. tests/data/overlaps.json
holds this rule to that of the board's page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from loadtest.results.record import CriticalSection

MOST_KEPT = 10_000  # pairs: without a lock, thousands of retries make millions


@dataclass(frozen=True)
class Overlap:
    """Two critical sections that were open at the same time; times in milliseconds of the record."""

    first: CriticalSection
    second: CriticalSection
    from_ms: float
    to_ms: float


@dataclass(frozen=True)
class Overlaps:
    """The pairs that were open at once, about the same item.

    Sections of one hold share its token and do not count as a pair; sections without an end are left out.

    Attributes:
        count: of all pairs.
        spans: the times with at least one pair, in order and without touching.
        pairs: the first `MOST_KEPT`, in the order in which they began.
    """

    count: int = 0
    spans: list[tuple[float, float]] = field(default_factory=list)
    pairs: list[Overlap] = field(default_factory=list)

    @classmethod
    def of(cls, sections: Iterable[CriticalSection]) -> Overlaps:
        count = 0
        spans: list[tuple[float, float]] = []
        pairs: list[Overlap] = []
        for second, met in _meetings(sections):
            count += len(met)
            spans.append((second.entered, min(second.left, max(first.left for first in met))))
            pairs += [
                Overlap(first.section, second.section, second.entered, min(first.left, second.left))
                for first in met[: MOST_KEPT - len(pairs)]
            ]
        return cls(count, joined(spans), pairs)


@dataclass(frozen=True, slots=True, eq=False)
class _Ended:
    """A section that ended, with the values that every comparison needs."""

    section: CriticalSection
    entered: float
    left: float
    hold: tuple[object, ...]
    item: str


def _meetings(sections: Iterable[CriticalSection]) -> Iterator[tuple[_Ended, list[_Ended]]]:
    """Each section that found others inside when it entered, and those others."""
    ended = [
        _Ended(each, each.entered_ms, each.left_ms, hold_of(each), each.item)
        for each in sections
        if each.left_ms is not None
    ]
    inside: list[_Ended] = []
    for second in sorted(ended, key=lambda each: (each.entered, each.left)):
        inside = [first for first in inside if first.left > second.entered]
        met = [first for first in inside if first.hold != second.hold and first.item == second.item]
        if met:
            yield second, met
        inside.append(second)


def joined(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Times in the order of their beginning, joined where they touch."""
    spans: list[tuple[float, float]] = []
    for from_ms, to_ms in times:
        if spans and from_ms <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], to_ms)
        else:
            spans.append((from_ms, to_ms))
    return spans


def hold_of(section: CriticalSection) -> tuple[object, ...]:
    """The key of the hold of a section; without a token, it is alone."""
    return section.instance, section.pid, section.order if section.token is None else json.dumps(section.token)
