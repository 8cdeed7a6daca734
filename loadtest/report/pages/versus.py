"""The page of two comparisons, or of two benchmarks: B as a multiple of A."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.bench.result import Row
from loadtest.bench.tables import setting
from loadtest.report.charts.strip import Lane, strip
from loadtest.report.charts.vega import Markup, draw
from loadtest.report.charts.waiting import distributions
from loadtest.report.pages.comparison import took
from loadtest.report.render import render
from loadtest.report.sources import BenchSource, ComparisonSource, ReportError, Source
from loadtest.results.comparison import Run

_SIZES = {"buyers": "buyers", "stock": "items", "hold_ms": "think time ms", "opens_in_s": "opens in s"}


@dataclass(frozen=True)
class Measure:
    """A figure in both; None where it was not measured."""

    name: str
    a: float | None
    b: float | None

    @property
    def ratio(self) -> float | None:
        return self.b / self.a if self.a and self.b is not None else None


@dataclass(frozen=True)
class Line:
    """A guard, or a case of the benchmark, in both; the first measure is its wall time."""

    name: str
    verdicts: tuple[str, str]
    measures: Sequence[Measure]


def page(a: Source, b: Source) -> str:
    """The page of two; raises ReportError if they cannot be compared."""
    waits: Markup | None = None
    if isinstance(a, ComparisonSource) and isinstance(b, ComparisonSource):
        lines, waits = _guards(a, b), _waits(a, b)
    elif isinstance(a, BenchSource) and isinstance(b, BenchSource):
        lines = _cases(a, b)
    else:
        raise ReportError(f"{a.path} and {b.path} cannot be compared: two comparisons can be, or two benchmarks")
    if not lines:
        raise ReportError(f"{a.path} and {b.path} have nothing in common")
    context = {"a": a, "b": b, "lines": lines, "ratios": _ratios(lines), "waits": waits, "differ": _differ(a, b)}
    return render("versus.html", {**context, "sentence": sentence(lines)})


def sentence(lines: Sequence[Line]) -> str:
    """The heading: the ratio of the wall times."""
    ratios = sorted(ratio for line in lines if (ratio := line.measures[0].ratio) is not None)
    if not ratios:
        return "A against B"
    low, high = f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"
    return f"B took {low if low == high else f'{low} to {high}'} times as long as A."


def _guards(a: ComparisonSource, b: ComparisonSource) -> list[Line]:
    theirs = {run.guard: run for run in b.about.runs}
    both = [(run, theirs[run.guard]) for run in a.about.runs if run.guard in theirs]
    return [Line(run.guard, (run.verdict, other.verdict), _measures(run, other)) for run, other in both]


def _cases(a: BenchSource, b: BenchSource) -> list[Line]:
    theirs = {row.case: row for row in b.about.rows}
    both = [(row, theirs[row.case]) for row in a.about.rows if row.case in theirs]
    return [
        Line(
            ", ".join(filter(None, (row.case.part, row.case.guard, setting(row.case)))),
            (_worst_first(row), _worst_first(other)),
            _measures(row, other),
        )
        for row, other in both
    ]


def _worst_first(row: Row) -> str:
    """The verdicts of all rounds; the first decides how they are shown."""
    return " / ".join(sorted(row.verdicts, key=lambda verdict: verdict.startswith("EXACT")))


def _measures(a: Run | Row, b: Run | Row) -> list[Measure]:
    found = [Measure("wall s", a.wall_s, b.wall_s), Measure("took ms", a.purchase_ms.p50, b.purchase_ms.p50)]
    if isinstance(a, Run) and isinstance(b, Run):
        found.append(Measure("waited ms", a.waited_ms.p50, b.waited_ms.p50))
    return found


def _ratios(lines: Sequence[Line]) -> Markup | None:
    lanes = [
        Lane(line.name, [1.0, ratio], ratio, f"{ratio:.2f} x")
        for line in lines
        if (ratio := line.measures[0].ratio) is not None
    ]
    return draw(strip(lanes, title="wall time of B as a multiple of A", line_at=1.0)) if lanes else None


def _waits(a: ComparisonSource, b: ComparisonSource) -> Markup | None:
    """Times from click to answer, A above B for each guard that both recorded."""
    both = [guard for guard in a.recorded if guard in b.records]
    waits = {f"{guard}, {name}": took(each.records[guard]) for guard in both for name, each in (("A", a), ("B", b))}
    spec = distributions(waits)
    return draw(spec) if spec else None


def _differ(a: Source, b: Source) -> list[tuple[str, Any, Any]]:
    """The sizes of two rushes and the versions, as far as they differ."""
    names = dict.fromkeys([*a.about.versions, *b.about.versions])
    pairs = [(name, a.about.versions.get(name, "none"), b.about.versions.get(name, "none")) for name in names]
    if isinstance(a, ComparisonSource) and isinstance(b, ComparisonSource):
        pairs = [(text, getattr(a.about, name), getattr(b.about, name)) for name, text in _SIZES.items()] + pairs
    return [pair for pair in pairs if pair[1] != pair[2]]
