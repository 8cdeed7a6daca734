"""The critical sections of a record, judged and drawn."""

from __future__ import annotations

from dataclasses import dataclass

from loadtest.report.charts.race import magnified, race
from loadtest.report.charts.sold import end_s
from loadtest.report.charts.timeline import timeline
from loadtest.report.charts.vega import Markup, draw
from loadtest.results.audit import Audit, audit
from loadtest.results.overlaps import wrote
from loadtest.results.record import CriticalSection, Record


@dataclass(frozen=True)
class Inside:
    """A record; charts are None where there is nothing to draw, or no means to."""

    record: Record
    found: Audit
    timeline: Markup | None
    racing: list[CriticalSection]
    race: Markup | None

    @property
    def sold(self) -> int:
        """The number of critical sections in which an item was sold."""
        return sum(map(wrote, self.record.sections))

    @classmethod
    def of(cls, record: Record) -> Inside:
        found = audit(record)
        racing = race(found)
        spec = timeline(record, found, until_s=end_s(record))
        return cls(record, found, draw(spec) if spec else None, racing, draw(magnified(racing)) if racing else None)
