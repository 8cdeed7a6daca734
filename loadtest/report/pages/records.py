"""The page of records alone, such as those of `make faults`: what was expected and what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loadtest.report.charts.sold import end_s, sold_over_time
from loadtest.report.charts.vega import HALF, Markup, draw
from loadtest.report.pages.comparison import demo
from loadtest.report.pages.sections import Inside
from loadtest.report.render import render
from loadtest.report.sources import RecordsSource
from loadtest.results.record import Record

_ALL_OPEN = 6  # records


@dataclass(frozen=True)
class Played:
    """A record and its charts."""

    inside: Inside
    sold: Markup | None

    @classmethod
    def of(cls, record: Record) -> Played:
        most = max(record.stock, len(record.ledger))
        return cls(Inside.of(record), draw(sold_over_time(record, until_s=end_s(record), most=most, width=HALF)))

    @property
    def record(self) -> Record:
        return self.inside.record

    @property
    def name(self) -> str:
        return f"{self.record.scenario or 'rush'}, {self.record.guard}"

    @property
    def as_expected(self) -> bool:
        expectation = self.record.expectation
        return expectation.as_expected if expectation else bool(self.record.kept_promise)

    @property
    def problems(self) -> list[str]:
        return self.record.expectation.problems if self.record.expectation else []


def page(kept: RecordsSource) -> str:
    """The page of records."""
    played = [Played.of(record) for record in kept.records]
    return render(
        "records.html",
        {
            "source": kept,
            "sentence": sentence(played),
            "good": all(each.as_expected for each in played),
            "chapters": chapters(played),
            "all_open": len(played) <= _ALL_OPEN,
            "repeat": repeat(kept.records),
        },
    )


def sentence(played: list[Played]) -> str:
    """The heading: the verdict of a single record, or how many are as expected."""
    if len(played) == 1:
        only = played[0]
        expected = f", {'' if only.as_expected else 'not '}as expected." if only.record.expectation else ""
        return f"{only.name}: {only.record.verdict['verdict']}{expected}"
    unexpected = sum(not each.as_expected for each in played)
    return f"{len(played)} sales under faults: {f'{unexpected} not' if unexpected else 'all'} as expected."


def chapters(played: list[Played]) -> list[dict[str, Any]]:
    """The records by scenario."""
    found: dict[str, list[Played]] = {}
    for each in played:
        found.setdefault(each.record.scenario or "rush", []).append(each)
    return [{"name": name, "expectation": each[0].record.expectation, "played": each} for name, each in found.items()]


def repeat(records: list[Record]) -> str:
    """The command that repeats them."""
    first, guards = records[0], list(dict.fromkeys(record.guard for record in records))
    if first.kind != "fault":
        return demo(guards, first.buyers, first.stock, first.hold_ms)
    scenarios = dict.fromkeys(str(record.scenario) for record in records)
    words = [*scenarios, *(f"--guard {guard}" for guard in guards)]
    return f'make faults ARGS="{" ".join(words)}"'
