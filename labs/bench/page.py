"""The page of a benchmark: how long each guard took, as charts and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from labs.bench.result import BenchResult, Row
from labs.bench.tables import ResultTable, ceiling_tables, full_setting, part_tables
from loadtest.report.charts.vega import DIM, LINE, PLAIN, WIDE, Spec, axis, by, chart_svg, layer, pixels, room
from loadtest.report.render import render

_TEMPLATES = Path(__file__).with_name("templates")
_LANE = 30
_TEXTS = 130  # width of the texts on the right
_NAME = {"type": "text", "align": "left", "fontWeight": 600}
_TEXT = {"type": "text", "align": "right", "fill": DIM}
_AIR = 1.1  # factor around the outermost values


class Lane(NamedTuple):
    """One line of a chart: all values, the middle one, and its text."""

    name: str
    values: Sequence[float]
    middle: float
    text: str


def render_benchmark(result: BenchResult) -> str:
    """The page of a benchmark, as HTML."""
    parts = [_part_context(result, table) for table in part_tables(result)]
    return render(
        "benchmark.html",
        folder=_TEMPLATES,
        result=result,
        parts=parts,
        ceilings=list(ceiling_tables(result)),
    )


def _part_context(result: BenchResult, table: ResultTable) -> dict[str, Any]:
    """A part's table and chart: the rounds of each case, or for an open load, median and 99th percentile."""
    rows = result.part(table.name)
    guards = list(dict.fromkeys(row.case.guard for row in rows))
    rows.sort(key=lambda row: guards.index(row.case.guard))  # the settings of a guard stand together
    is_open = all(row.case.rate for row in rows)
    lanes = [_lane(row, is_open) for row in rows]
    title = "milliseconds from click to answer" if is_open else "seconds from the first click to the last answer"
    return {"table": table, "title": title, "is_open": is_open, "chart": chart_svg(rounds_chart(lanes, title=title))}


def _lane(row: Row, is_open: bool) -> Lane:
    name = ", ".join(filter(None, (row.case.guard, full_setting(row.case))))
    if not is_open:
        return Lane(name, row.walls_s, row.wall_s, f"{row.wall_s:.3f} s")
    p50, p99 = row.purchase_ms.p50 or 0.0, row.purchase_ms.p99 or 0.0
    return Lane(name, [p50, p99], p50, f"{p50:.0f} / {p99:.0f} ms")


def rounds_chart(lanes: Sequence[Lane], *, title: str) -> Spec:
    """Repeated measurements, which are positive: a tick for each, a dot for the middle, on a logarithmic axis."""
    rows = [
        {
            "y": (number + 0.5) * _LANE,
            "name": lane.name,
            "text": lane.text,
            "from": min(lane.values),
            "to": max(lane.values),
            "middle": lane.middle,
        }
        for number, lane in enumerate(lanes)
    ]
    rounds = [{"y": (number + 0.5) * _LANE, "at": at} for number, lane in enumerate(lanes) for at in lane.values]
    outermost = [at for lane in lanes for at in (*lane.values, lane.middle)]
    ends = (min(outermost) / _AIR, max(outermost) * _AIR)
    x = axis("from", ends, title=title, scale={"type": "log"}, grid=True, tickCount=8, format="~r")
    y = pixels("y")
    dot = {"type": "point", "filled": True, "size": 140, "color": PLAIN, "opacity": 1}
    names = room(lane.name for lane in lanes)
    width = WIDE - names - _TEXTS
    return {
        "width": width,
        "height": len(lanes) * _LANE,
        "layer": [
            layer(rows, {"type": "rule", "color": LINE, "strokeWidth": 5}, x=x, x2={"field": "to"}, y=y),
            layer(rounds, {"type": "tick", "color": DIM, "thickness": 2, "size": 14}, x=by("at"), y=y),
            layer(rows, dot, x=by("middle"), y=y),
            layer(rows, _NAME, x={"value": -names}, y=y, text={"field": "name"}),
            layer(rows, _TEXT, x={"value": width + _TEXTS}, y=y, text={"field": "text"}),
        ],
    }
