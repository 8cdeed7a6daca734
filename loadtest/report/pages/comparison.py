"""The page of a comparison: verdicts, sales over time, waiting times, critical sections."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.report.charts.sold import end_s
from loadtest.report.charts.vega import chart_svg
from loadtest.report.charts.waiting import distributions
from loadtest.report.pages.records import DrawnRecord
from loadtest.report.pages.repeat import repeat_comparison
from loadtest.report.render import render
from loadtest.report.slow_motion import SlowMotion
from loadtest.results.comparison import Comparison
from loadtest.results.record import Record


def comparison_page(comparison: Comparison, records: Sequence[Record]) -> str:
    """The page of a comparison, with the records of its runs as far as they were kept."""
    by_guard = {record.guard: record for record in records}
    records = [by_guard[run.guard] for run in comparison.runs if run.guard in by_guard]
    until_s = max(map(end_s, records), default=0.0)
    most = max([comparison.stock, *(run.orders for run in comparison.runs)]) or 1
    took = {record.guard: [row.answered_ms - row.sent_ms for row in record.answers] for record in records}
    return render(
        "comparison.html",
        comparison=comparison,
        most=most,
        drawn=[DrawnRecord(record, until_s=until_s, most=most) for record in records],
        waiting=chart_svg(distributions(took)),
        repeat=repeat_comparison(comparison),
        slow=SlowMotion.of(records),
    )
