"""The page of two comparisons, or of two benchmarks: B as a multiple of A."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from loadtest.bench.result import BenchResult, Row
from loadtest.bench.tables import setting
from loadtest.report.render import render
from loadtest.results.comparison import Comparison, Run
from loadtest.results.kept import KeptError

Kept: TypeAlias = Comparison | BenchResult

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
    """A guard, or a case of a benchmark, in both."""

    name: str
    verdicts: tuple[str, str]
    wall: Measure
    took: Measure

    @classmethod
    def of(cls, name: str, verdicts: tuple[str, str], a: Run | Row, b: Run | Row) -> Line:
        took = Measure("took ms", a.purchase_ms.p50, b.purchase_ms.p50)
        return cls(name, verdicts, Measure("wall s", a.wall_s, b.wall_s), took)


def page(files: tuple[Path, Path], a: object, b: object) -> str:
    """The page of what was read from two files; raises KeptError if they cannot be compared."""
    if isinstance(a, Comparison) and isinstance(b, Comparison):
        lines = list(_guards(a, b))
    elif isinstance(a, BenchResult) and isinstance(b, BenchResult):
        lines = list(_cases(a, b))
    else:
        raise KeptError(f"{files[0]} and {files[1]} cannot be compared: two comparisons can be, or two benchmarks")
    if not lines:
        raise KeptError(f"{files[0]} and {files[1]} have nothing in common")
    context = {"files": files, "a": a, "b": b, "lines": lines, "differ": _differ(a, b)}
    return render("versus.html", {**context, "sentence": _sentence(lines)})


def _guards(a: Comparison, b: Comparison) -> Iterator[Line]:
    theirs = {run.guard: run for run in b.runs}
    for run in a.runs:
        if other := theirs.get(run.guard):
            yield Line.of(run.guard, (run.verdict, other.verdict), run, other)


def _cases(a: BenchResult, b: BenchResult) -> Iterator[Line]:
    theirs = {row.case: row for row in b.rows}
    for row in a.rows:
        if other := theirs.get(row.case):
            name = ", ".join(filter(None, (row.case.part, row.case.guard, setting(row.case))))
            yield Line.of(name, (_worst_first(row), _worst_first(other)), row, other)


def _worst_first(row: Row) -> str:
    """The verdicts of all rounds; the first decides how they are shown."""
    return " / ".join(sorted(row.verdicts, key=lambda verdict: verdict.startswith("EXACT")))


def _sentence(lines: list[Line]) -> str:
    """The heading: the ratios of the wall times."""
    ratios = sorted(ratio for line in lines if (ratio := line.wall.ratio) is not None)
    if not ratios:
        return "A against B"
    low, high = f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"
    return f"B took {low if low == high else f'{low} to {high}'} times as long as A."


def _differ(a: Kept, b: Kept) -> list[tuple[str, Any, Any]]:
    """The sizes of two rushes and the versions, as far as they differ."""
    names = dict.fromkeys([*a.versions, *b.versions])
    pairs = [(name, a.versions.get(name, "none"), b.versions.get(name, "none")) for name in names]
    if isinstance(a, Comparison):
        pairs = [(text, getattr(a, name), getattr(b, name)) for name, text in _SIZES.items()] + pairs
    return [pair for pair in pairs if pair[1] != pair[2]]
