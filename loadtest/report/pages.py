"""The pages of a report: of a comparison, and of records alone, with the commands that repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from loadtest.language import ENGLISH, text_in, verdict_in
from loadtest.report.charts.lost_update import first_lost_update, magnified
from loadtest.report.charts.sold import end_s, sold_over_time
from loadtest.report.charts.timeline import timeline
from loadtest.report.charts.vega import chart_svg
from loadtest.report.charts.waiting import distributions
from loadtest.report.render import render
from loadtest.report.slow_motion import SlowMotion
from loadtest.results.audit import audit
from loadtest.results.comparison import DEMO_GUARDS, Comparison
from loadtest.results.record import NO_GUARD, Record


class DrawnRecord:
    """A record, what the audit found, and its charts, which are None if there is nothing to draw, or no means to.

    Args:
        until_s: with `most`, the ends of the axes of the items sold.

    Attributes:
        sold: items sold over time.
        timeline: of the critical sections.
        lost_update: the purchases in the first lost update; `magnified` is their chart.
    """

    def __init__(self, record: Record, *, until_s: float, most: int, language: str) -> None:
        self.record = record
        self.audit = audit(record)
        self.sold = chart_svg(sold_over_time(record, until_s=until_s, most=most, language=language))
        self.timeline = chart_svg(timeline(record, self.audit, until_s=end_s(record), language=language))
        self.lost_update = first_lost_update(self.audit.losses)
        self.magnified = chart_svg(magnified(self.lost_update, language))


def comparison_page(comparison: Comparison, records: Sequence[Record], language: str = ENGLISH) -> str:
    """The page of a comparison, with the records of its runs as far as they were kept."""
    by_guard = {record.guard: record for record in records}
    records = [by_guard[run.guard] for run in comparison.runs if run.guard in by_guard]
    until_s = max(map(end_s, records), default=0.0)
    most = max([comparison.stock, *(run.orders for run in comparison.runs)]) or 1
    took = {record.guard: [row.answered_ms - row.sent_ms for row in record.answers] for record in records}
    return render(
        "comparison.html",
        language=language,
        comparison=comparison,
        sentences=comparison.sentences(language),
        most=most,
        drawn=[DrawnRecord(record, until_s=until_s, most=most, language=language) for record in records],
        waiting=chart_svg(distributions(took, language)),
        repeat=repeat_comparison(comparison, language),
        slow=SlowMotion.of(records),
    )


def records_page(records: Sequence[Record], language: str = ENGLISH) -> str:
    """The page of at least one record, in the order of time."""
    drawn = [
        DrawnRecord(each, until_s=end_s(each), most=max(each.stock, len(each.ledger)), language=language)
        for each in records
    ]
    chapters = [(name, list(played)) for name, played in groupby(drawn, lambda each: each.record.name)]
    return render(
        "records.html",
        language=language,
        first=records[0],
        sentence=_sentence(records, language),
        good=all(record.as_expected for record in records),
        chapters=chapters,
        repeat=repeat_records(records, language),
        slow=SlowMotion.of(records),
    )


def _sentence(records: Sequence[Record], language: str) -> str:
    """The heading: the verdict of a single record, or how many are as expected."""
    if len(records) == 1:
        (only,) = records
        key = {True: "lead.one_expected", False: "lead.one_unexpected", None: "lead.one"}[only.as_expected]
        verdict = verdict_in(language, only.verdict["findings"])
        if not only.expectation:
            return f"{only.name}, {only.guard}: {verdict}"
        return text_in(language, key, name=only.name, guard=only.guard, verdict=verdict)
    unexpected = sum(record.as_expected is False for record in records)
    unknown = sum(record.as_expected is None for record in records)
    parts = [text_in(language, "lead.unexpected", n=unexpected)] if unexpected else []
    parts += [text_in(language, "lead.no_verdict", n=unknown)] if unknown else []
    listed = text_in(language, "comma").join(parts) or text_in(language, "lead.expected")
    return text_in(language, "lead.faults", n=len(records), told=listed)


def repeat_comparison(comparison: Comparison, language: str = ENGLISH) -> str:
    """The command of a comparison."""
    guards = [run.guard for run in comparison.runs]
    return _demo(guards, comparison.buyers, comparison.stock, comparison.hold_ms, language)


def repeat_records(records: Sequence[Record], language: str = ENGLISH) -> str:
    """The command of at least one record."""
    first, guards = records[0], list(dict.fromkeys(record.guard for record in records))
    if first.kind != "fault":
        return _demo(guards, first.buyers, first.stock, first.hold_ms, language)
    scenarios = dict.fromkeys(record.name for record in records)
    spoken = [] if language == ENGLISH else [f"--language {language}"]
    return _make("faults", [*scenarios, *(f"--guard {guard}" for guard in guards), *spoken])


def _demo(guards: Sequence[str], buyers: int | None, stock: int, hold_ms: int | None, language: str) -> str:
    """A rush; what is None is not known."""
    options = [
        ("buyers", buyers, 500),
        ("stock", stock, 300),
        ("hold-ms", hold_ms, 0),
        ("language", language, ENGLISH),
    ]
    named = [guard for guard in guards if guard not in ("mixed", NO_GUARD)]  # as the board records them
    words = [] if tuple(named) == DEMO_GUARDS else [f"--guard {guard}" for guard in named]
    return _make("demo", words + [f"--{name} {value}" for name, value, usual in options if value not in (None, usual)])


def _make(target: str, words: Sequence[str]) -> str:
    return f'make {target} ARGS="{" ".join(words)}"' if words else f"make {target}"
