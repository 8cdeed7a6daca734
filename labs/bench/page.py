"""The page of a benchmark: how long each guard took."""

from __future__ import annotations

from typing import Any

from labs.bench.result import BenchResult, Row
from labs.bench.strip import Lane, strip
from labs.bench.tables import Grid, grids, setting
from loadtest.report.charts.vega import chart_svg
from loadtest.report.render import render


def page(result: BenchResult) -> str:
    """The page of a benchmark."""
    return render("benchmark.html", result=result, parts=[_part(result, grid) for grid in grids(result)])


def _part(result: BenchResult, grid: Grid) -> dict[str, Any]:
    """A part's table and chart: the rounds of each case, or for an open load, median and 99th percentile."""
    rows = result.part(grid.name)
    guards = list(dict.fromkeys(row.case.guard for row in rows))
    rows.sort(key=lambda row: guards.index(row.case.guard))  # the settings of a guard stand together
    is_open = all(row.case.rate for row in rows)
    lanes = [_lane(row, is_open) for row in rows]
    title = "milliseconds from click to answer" if is_open else "seconds from the first click to the last answer"
    return {"grid": grid, "title": title, "is_open": is_open, "chart": chart_svg(strip(lanes, title=title))}


def _lane(row: Row, is_open: bool) -> Lane:
    name = ", ".join(filter(None, (row.case.guard, setting(row.case))))
    if not is_open:
        return Lane(name, row.walls_s, row.wall_s, f"{row.wall_s:.3f} s")
    p50, p99 = row.purchase_ms.p50 or 0.0, row.purchase_ms.p99 or 0.0
    return Lane(name, [p50, p99], p50, f"{p50:.0f} / {p99:.0f} ms")
