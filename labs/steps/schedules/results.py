"""The schedules of a guard as a file, for the page: ``reports/NAME/schedules-GUARD.json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from app.contract.outcomes import Promise
from app.contract.section_log import GuardSource
from labs.steps.schedules.files import PREFIX
from labs.steps.schedules.schedule import Fault, Schedule
from loadtest.results.record import CriticalSection

SECTION = ("buyer", "instance", "token", "outcome", "cause", "entered_ms", "read_ms", "commit_ms", "left_ms")
COLUMNS = (*SECTION, "line", "stock", "stock_read", "order")  # of a section, as the page names them; then its points
WRONG = ("oversold", "lost_updates", "told_wrong", "unsold")


@dataclass
class Count:
    """The schedules of a guard with one kind of fault.

    Attributes:
        promise: the guard's.
        seconds: that they took.
        wrong: schedules that ended wrongly, in whatever way; the four before it: in which.
        shortest: the shortest of them.
    """

    guard: str
    promise: str
    fault: Fault
    schedules: int = 0
    oversold: int = 0
    lost_updates: int = 0
    told_wrong: int = 0
    unsold: int = 0
    wrong: int = 0
    seconds: float = 0.0
    shortest: Schedule | None = None

    def add(self, schedule: Schedule) -> None:
        self.schedules += 1
        for name in WRONG:
            setattr(self, name, getattr(self, name) + bool(getattr(schedule.ending, name)))
        if not schedule.ending.is_right:
            self.wrong += 1
            if self.shortest is None or schedule.size < self.shortest.size:
                self.shortest = schedule

    @property
    def is_promised(self) -> bool:
        """Whether the guard promises that none of these schedules ends wrongly."""
        return self.promise == Promise.EXACT or (self.promise != Promise.NONE and self.fault is not Fault.PAUSE)

    @property
    def kept(self) -> bool:
        return not (self.is_promised and self.wrong)


@dataclass
class Exploration:
    """What came of a guard.

    Attributes:
        source: its `buy`, for the slow motion.
        rows: one for each schedule, see `row_of`.
    """

    guard: str
    promise: str
    items: int
    buyers: int
    started: str
    source: GuardSource | None = None
    counts: list[Count] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)

    @property
    def kept(self) -> bool:
        return all(count.kept for count in self.counts)

    def write(self, report: Path) -> Path:
        """Write its file into `report`; raises OSError."""
        path = report / f"{PREFIX}{self.guard}.json"
        counts = [{**vars(count), "shortest": count.shortest and count.shortest.path} for count in self.counts]
        kept = {**vars(self), "source": self.source and asdict(self.source), "counts": counts, "columns": COLUMNS}
        path.write_bytes(msgspec.json.encode(kept))
        return path


def row_of(schedule: Schedule) -> list[Any]:
    """Moves, points, ending, and the film: counter, orders, sections, answers."""
    return [
        schedule.fault.value,
        [str(done.move) for done in schedule.moves],
        ["waits" if done.waits else done.point for done in schedule.moves],
        [getattr(schedule.ending, name) for name in WRONG],
        schedule.stock_left,
        [entry.order for entry in schedule.ledger],
        [_packed(section) for section in schedule.sections],
        [[answer.buyer, answer.outcome.value] for answer in schedule.answers],
    ]


def _packed(section: CriticalSection) -> list[Any]:
    points = [[point.name, point.line, point.at_ms] for point in section.points]
    return [*(getattr(section, name) for name in COLUMNS), points]


def guards_in(names: Sequence[str], every: Sequence[str]) -> list[str]:
    """The guards that are meant, in the order of the list of all."""
    return [name for name in every if "all" in names or name in names]
