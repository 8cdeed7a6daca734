"""The page of two comparisons, or of two benchmarks: B as a multiple of A."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from loadtest.bench.result import BenchResult, Row
from loadtest.bench.tables import setting
from loadtest.report.render import render
from loadtest.results.comparison import Comparison
from loadtest.results.kept import KeptError
from loadtest.results.record import Record

_SIZES = {"buyers": "buyers", "stock": "items", "hold_ms": "think time ms", "opens_in_s": "opens in s"}


class Measured(NamedTuple):
    """A guard of a comparison, or a case of a benchmark; `took_ms` is None if it was not measured."""

    name: str
    verdict: str
    wall_s: float
    took_ms: float | None


def page(files: tuple[Path, Path], a: Comparison | BenchResult | list[Record], b: object) -> str:
    """The page of what was read from two files; raises KeptError if they cannot be compared."""
    if isinstance(a, list) or type(a) is not type(b):
        raise KeptError(f"{files[0]} and {files[1]} cannot be compared: two comparisons can be, or two benchmarks")
    theirs = _measured(b)
    lines = [(ours, theirs[key]) for key, ours in _measured(a).items() if key in theirs]
    if not lines:
        raise KeptError(f"{files[0]} and {files[1]} have nothing in common")
    sentence, differ = _sentence(lines), _differ(a, b)
    return render("versus.html", files=files, a=a, b=b, lines=lines, sentence=sentence, differ=differ)


def _measured(kept: Comparison | BenchResult) -> dict[object, Measured]:
    if isinstance(kept, Comparison):
        return {run.guard: Measured(run.guard, run.verdict, run.wall_s, run.purchase_ms.p50) for run in kept.runs}
    return {row.case: Measured(_name(row), _worst_first(row), row.wall_s, row.purchase_ms.p50) for row in kept.rows}


def _name(row: Row) -> str:
    return ", ".join(filter(None, (row.case.part, row.case.guard, setting(row.case))))


def _worst_first(row: Row) -> str:
    """The verdicts of all rounds; the first decides how they are shown."""
    return " / ".join(sorted(row.verdicts, key=lambda verdict: verdict.startswith("EXACT")))


def _sentence(lines: list[tuple[Measured, Measured]]) -> str:
    """The heading: the ratios of the wall times."""
    ratios = sorted(b.wall_s / a.wall_s for a, b in lines if a.wall_s)
    if not ratios:
        return "A against B"
    low, high = f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"
    return f"B took {low if low == high else f'{low} to {high}'} times as long as A."


def _differ(a: Comparison | BenchResult, b: Comparison | BenchResult) -> list[tuple[str, Any, Any]]:
    """The sizes of two rushes and the versions, as far as they differ."""
    names = dict.fromkeys([*a.versions, *b.versions])
    pairs = [(name, a.versions.get(name, "none"), b.versions.get(name, "none")) for name in names]
    if isinstance(a, Comparison):
        pairs = [(text, getattr(a, name), getattr(b, name)) for name, text in _SIZES.items()] + pairs
    return [pair for pair in pairs if pair[1] != pair[2]]
