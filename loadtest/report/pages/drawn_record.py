"""A record, judged and drawn."""

from __future__ import annotations

from dataclasses import dataclass

from loadtest.report.charts.race import magnified, race
from loadtest.report.charts.sold import end_s, sold_over_time
from loadtest.report.charts.timeline import timeline
from loadtest.report.charts.vega import Markup, draw
from loadtest.results.audit import Audit, audit
from loadtest.results.record import CriticalSection, Record


@dataclass(frozen=True)
class DrawnRecord:
    """A record and its charts, which are None where there is nothing to draw, or no means to.

    Attributes:
        sold: items sold over time.
        timeline: of the critical sections.
        racing: the sections of the first race; `race` is their chart.
    """

    record: Record
    found: Audit
    sold: Markup | None
    timeline: Markup | None
    racing: list[CriticalSection]
    race: Markup | None

    @classmethod
    def of(cls, record: Record, *, until_s: float, most: int) -> DrawnRecord:
        """`until_s` and `most` are the ends of the axes of the items sold."""
        found = audit(record)
        racing = race(found)
        spec = timeline(record, found, until_s=end_s(record))
        return cls(
            record=record,
            found=found,
            sold=draw(sold_over_time(record, until_s=until_s, most=most)),
            timeline=draw(spec) if spec else None,
            racing=racing,
            race=draw(magnified(racing)) if racing else None,
        )
