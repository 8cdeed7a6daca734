"""Who was inside the critical section when: the record's sections as bars, and the times in which they overlapped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loadtest.results.overlaps import SOLD, hold_of
from loadtest.results.record import CriticalSection, Record


@dataclass(frozen=True)
class Bar:
    """One time inside: a critical section, or all purchases of one hold that committed them together.

    Attributes:
        lane: of its instance; sections that are open at once are in different ones.
        ended: False if its process died inside; `to_ms` is then the last that is known of that process.
    """

    instance: str
    lane: int
    from_ms: float
    to_ms: float
    sold: bool
    ended: bool


def bars(record: Record) -> list[Bar]:
    """All of them, in the order in which they began."""
    lanes: dict[str, list[float]] = {}
    last = _last_known(record.sections)
    found = []
    for group in _groups(record.sections):
        first = group[0]
        ended = all(section.left_ms is not None for section in group)
        to_ms = max(section.left_ms or last[section.instance, section.pid] for section in group)
        lane = _lane(lanes.setdefault(first.instance, []), first.entered_ms, to_ms)
        sold = any(section.outcome == SOLD for section in group)
        found.append(Bar(first.instance, lane, first.entered_ms, to_ms, sold, ended))
    return found


def _last_known(sections: Iterable[CriticalSection]) -> dict[tuple[str, int], float]:
    """When each process last entered or left a section."""
    last: dict[tuple[str, int], float] = {}
    for section in sections:
        process = section.instance, section.pid
        last[process] = max(last.get(process, 0.0), section.left_ms or section.entered_ms)
    return last


def _groups(sections: Iterable[CriticalSection]) -> list[list[CriticalSection]]:
    groups: dict[object, list[CriticalSection]] = {}
    for number, section in enumerate(sections):
        groups.setdefault(number if section.token is None else hold_of(section), []).append(section)
    return list(groups.values())


def _lane(busy_until: list[float], from_ms: float, to_ms: float) -> int:
    """The first that is free; `busy_until` is changed."""
    for lane, until in enumerate(busy_until):
        if until <= from_ms:
            busy_until[lane] = to_ms
            return lane
    busy_until.append(to_ms)
    return len(busy_until) - 1
