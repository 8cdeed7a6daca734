"""What the recorded critical sections of one run show, judged and drawn."""

from __future__ import annotations

from dataclasses import dataclass

from loadtest.audit import Audit, audit
from loadtest.record import Record, Section
from loadtest.report.chart import Markup, draw
from loadtest.report.race import magnified, race
from loadtest.report.sold import end_s
from loadtest.report.timeline import timeline


@dataclass(frozen=True)
class Inside:
    """One run; charts are None where there is nothing to draw, or no way to."""

    record: Record
    found: Audit
    timeline: Markup | None
    racing: list[Section]
    race: Markup | None

    @classmethod
    def of(cls, record: Record) -> Inside:
        found = audit(record)
        racing = race(found)
        spec = timeline(record, found, until_s=end_s(record))
        return cls(record, found, draw(spec) if spec else None, racing, draw(magnified(racing)) if racing else None)
