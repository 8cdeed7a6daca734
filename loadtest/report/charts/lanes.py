"""The critical sections of a record as bars, in lanes by instance."""

from __future__ import annotations

from dataclasses import dataclass

from app.contract.outcomes import Outcome
from loadtest.results.overlaps import hold_of
from loadtest.results.record import CriticalSection, Record


@dataclass(frozen=True)
class Bar:
    """A critical section, or all sections of one hold that committed together.

    Attributes:
        lane: of its instance; sections that are open at once are in different ones.
        ended: False if its process died inside; `to_ms` is then when the process was last seen.
    """

    instance: str
    lane: int
    from_ms: float
    to_ms: float
    sold: bool
    ended: bool


def bars(record: Record) -> list[Bar]:
    """All bars of a record, in the order in which they begin."""
    lanes: dict[str, list[float]] = {}
    last_seen: dict[tuple[str, int], float] = {}
    for section in record.sections:
        process = section.instance, section.pid
        last_seen[process] = max(last_seen.get(process, 0.0), section.left_ms or section.entered_ms)
    groups: dict[object, list[CriticalSection]] = {}
    for number, section in enumerate(record.sections):
        groups.setdefault(number if section.token is None else hold_of(section), []).append(section)
    bars = []
    for group in groups.values():
        first = group[0]
        ended = all(section.left_ms is not None for section in group)
        to_ms = max(section.left_ms or last_seen[section.instance, section.pid] for section in group)
        lane = _lane(lanes.setdefault(first.instance, []), first.entered_ms, to_ms)
        sold = any(section.outcome == Outcome.SOLD for section in group)
        bars.append(Bar(first.instance, lane, first.entered_ms, to_ms, sold, ended))
    return bars


def _lane(busy_until: list[float], from_ms: float, to_ms: float) -> int:
    lane = next((lane for lane, until in enumerate(busy_until) if until <= from_ms), len(busy_until))
    busy_until[lane : lane + 1] = [to_ms]
    return lane
