"""The page of a benchmark: how long each guard took, and where the CPU time goes."""

from __future__ import annotations

from typing import Any

from loadtest.bench.result import BenchResult, Row
from loadtest.bench.tables import Grid, grids, setting
from loadtest.report.charts.strip import Lane, strip
from loadtest.report.charts.vega import BAD, INK, PLAIN, WARN, WIDE, Markup, Spec, draw, room
from loadtest.report.render import render
from loadtest.report.sources import BenchSource

_CPU = ("instances", "etcd", "redis", "buyers")
_LANE = 34


def page(bench: BenchSource) -> str:
    """The page of a benchmark."""
    result = bench.about
    parts = [part(result, grid) for grid in grids(result)]
    return render("benchmark.html", {"source": bench, "parts": parts, "cpu": cpu(result)})


def part(result: BenchResult, grid: Grid) -> dict[str, Any]:
    """A part's table and chart: the rounds of each case, or for an open load, median and 99th percentile."""
    rows = result.part(grid.name)
    guards = list(dict.fromkeys(row.case.guard for row in rows))
    rows.sort(key=lambda row: guards.index(row.case.guard))  # the settings of a guard stand together
    is_open = all(row.case.rate for row in rows)
    lanes = [_lane(row, is_open) for row in rows]
    title = "milliseconds from click to answer" if is_open else "seconds from the first click to the last answer"
    return {"grid": grid, "title": title, "chart": draw(strip(lanes, title=title))}


def _lane(row: Row, is_open: bool) -> Lane:
    name = ", ".join(filter(None, (row.case.guard, setting(row.case))))
    if not is_open:
        return Lane(name, row.walls_s, row.wall_s, f"{row.wall_s:.3f} s")
    p50, p99 = row.purchase_ms.p50 or 0.0, row.purchase_ms.p99 or 0.0
    return Lane(name, [p50, p99], p50, f"{p50:.0f} / {p99:.0f} ms")


def cpu(result: BenchResult) -> Markup | None:
    """CPU time per click by process; None if the rush was not measured."""
    rows = [
        {"guard": row.case.guard, "process": process, "ms": row.cpu_ms[process], "place": place}
        for row in result.part("rush")
        for place, process in enumerate(_CPU)
        if process in row.cpu_ms
    ]
    return draw(_stacked(rows)) if rows else None


def _stacked(rows: list[dict[str, Any]]) -> Spec:
    guards = list(dict.fromkeys(row["guard"] for row in rows))
    names = {"labelAlign": "left", "labelPadding": room(guards), "labelLimit": 0, "labelColor": INK}
    names |= {"domain": False, "ticks": False, "grid": False}
    lanes = {"field": "guard", "type": "nominal", "sort": guards, "title": None, "axis": names}
    colours = {"domain": list(_CPU), "range": [PLAIN, WARN, BAD, "var(--c)"]}
    ms = {"title": "milliseconds of CPU time per click", "axis": {"grid": True, "domain": False, "tickCount": 8}}
    return {
        "width": WIDE - room(guards),
        "height": _LANE * len(guards),
        "data": {"values": rows},
        "mark": {"type": "bar", "height": _LANE * 0.6},
        "encoding": {
            "y": lanes,
            "x": {"field": "ms", "type": "quantitative", **ms},
            "color": {"field": "process", "type": "nominal", "scale": colours, "sort": list(_CPU), "title": None},
            "order": {"field": "place", "type": "quantitative"},
        },
    }
