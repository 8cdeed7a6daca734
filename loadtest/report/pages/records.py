"""The page of records alone, such as those of `make faults`: what was expected and what happened."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from loadtest.report.charts.race import magnified, race
from loadtest.report.charts.sold import end_s, sold_over_time
from loadtest.report.charts.timeline import timeline
from loadtest.report.charts.vega import chart_svg
from loadtest.report.pages.repeat import repeat_records
from loadtest.report.render import render
from loadtest.report.slow_motion import SlowMotion
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
        self.sold = chart_svg(sold_over_time(record, until_s=until_s, most=most))
        self.timeline = chart_svg(timeline(record, self.found, until_s=end_s(record)))
        self.racing = race(self.found)
        self.race = chart_svg(magnified(self.racing))


def records_page(records: Sequence[Record]) -> str:
    """The page of at least one record, in the order of time."""
    drawn = [DrawnRecord(each, until_s=end_s(each), most=max(each.stock, len(each.ledger))) for each in records]
    chapters = [(name, list(played)) for name, played in groupby(drawn, lambda each: each.record.name)]
    return render(
        "records.html",
        first=records[0],
        sentence=_sentence(records),
        good=all(record.as_expected for record in records),
        chapters=chapters,
        repeat=repeat_records(records),
        slow=SlowMotion.of(records),
    )


def _sentence(records: Sequence[Record]) -> str:
    """The heading: the verdict of a single record, or how many are as expected."""
    if len(records) == 1:
        (only,) = records
        expected = {True: ", as expected.", False: ", not as expected.", None: "."}[only.as_expected]
        return f"{only.name}, {only.guard}: {only.verdict['verdict']}{expected if only.expectation else ''}"
    unexpected = sum(record.as_expected is False for record in records)
    unknown = sum(record.as_expected is None for record in records)
    told = [f"{unexpected} not as expected"] if unexpected else []
    told += [f"{unknown} without a verdict"] if unknown else []
    return f"{len(records)} sales under faults: {', '.join(told) or 'all as expected'}."
