"""The page of a benchmark: how long each guard took, what changes that, and where the CPU time goes."""

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
    """The whole page."""
    result = bench.about
    parts = [part(result, grid) for grid in grids(result)]
    return render("benchmark.html", {"source": bench, "result": result, "parts": parts, "cpu": cpu(result)})


def part(result: BenchResult, grid: Grid) -> dict[str, Any]:
    """A part's table, and its chart: the rounds of each case, or for an open load, from the median to the 99th."""
    rows = result.part(grid.name)
    guards = list(dict.fromkeys(row.case.guard for row in rows))
    rows.sort(key=lambda row: guards.index(row.case.guard))  # what grows with its setting stands together
    is_open = all(row.case.rate for row in rows)
    lanes = [_answers(row) if is_open else _rounds(row) for row in rows]
    title = "milliseconds from click to answer" if is_open else "seconds from the first click to the last answer"
    return {"grid": grid, "title": title, "chart": draw(strip(lanes, title=title))}


def _rounds(row: Row) -> Lane:
    return Lane(_name(row), row.walls_s, row.wall_s, f"{row.wall_s:.3f} s")


def _answers(row: Row) -> Lane:
    p50, p99 = row.purchase_ms.p50 or 0.0, row.purchase_ms.p99 or 0.0
    return Lane(_name(row), [p50, p99], p50, f"{p50:.0f} / {p99:.0f} ms")


def _name(row: Row) -> str:
    return ", ".join(filter(None, (row.case.guard, setting(row.case))))


def cpu(result: BenchResult) -> Markup | None:
    """CPU time per click, by who used it; None if the rush was not measured."""
    rows = [
        {"guard": row.case.guard, "who": who, "ms": row.cpu_ms[who], "place": place}
        for row in result.part("rush")
        for place, who in enumerate(_CPU)
        if who in row.cpu_ms
    ]
    return draw(_stacked(rows)) if rows else None


def _stacked(rows: list[dict[str, Any]]) -> Spec:
    guards = list(dict.fromkeys(row["guard"] for row in rows))
    names = {"labelAlign": "left", "labelPadding": room(guards), "labelLimit": 0, "labelColor": INK}
    names |= {"domain": False, "ticks": False, "grid": False}
    lanes = {"field": "guard", "type": "nominal", "sort": guards, "title": None, "axis": names}
    who = {"domain": list(_CPU), "range": [PLAIN, WARN, BAD, "var(--c)"]}
    return {
        "width": WIDE - room(guards),
        "height": _LANE * len(guards),
        "data": {"values": rows},
        "mark": {"type": "bar", "height": _LANE * 0.6},
        "encoding": {
            "y": lanes,
            "x": {
                "field": "ms",
                "type": "quantitative",
                "title": "milliseconds of CPU time per click",
                "axis": {"grid": True, "domain": False, "tickCount": 8},
            },
            "color": {"field": "who", "type": "nominal", "scale": who, "sort": list(_CPU), "title": None},
            "order": {"field": "place", "type": "quantitative"},
        },
    }
