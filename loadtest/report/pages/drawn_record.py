"""A record, judged and drawn."""

from __future__ import annotations

from loadtest.report.charts.race import magnified, race
from loadtest.report.charts.sold import end_s, sold_over_time
from loadtest.report.charts.timeline import timeline
from loadtest.report.charts.vega import draw
from loadtest.results.audit import audit
from loadtest.results.record import Record


class DrawnRecord:
    """A record, what the audit found, and its charts, which are None where there is nothing to draw, or no means to.

    Args:
        until_s: with `most`, the ends of the axes of the items sold.

    Attributes:
        sold: items sold over time.
        timeline: of the critical sections.
        racing: the sections of the first race; `race` is their chart.
    """

    def __init__(self, record: Record, *, until_s: float, most: int) -> None:
        self.record = record
        self.found = audit(record)
        self.sold = draw(sold_over_time(record, until_s=until_s, most=most))
        self.timeline = draw(timeline(record, self.found, until_s=end_s(record)))
        self.racing = race(self.found)
        self.race = draw(magnified(self.racing))
