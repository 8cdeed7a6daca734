"""Repeated measurements: a tick for each round, a dot for the median, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.report.charts.vega import DIM, LINE, PLAIN, WIDE, Spec, axis, by, layer, pixels, room

_LANE = 30
_TEXTS = 130  # width of the texts on the right
_NAME = {"type": "text", "align": "left", "fontWeight": 600}
_TEXT = {"type": "text", "align": "right", "fill": DIM}
_AIR = 1.1  # factor around the outermost values


@dataclass(frozen=True)
class Lane:
    """One line of the chart: all values, the middle one, and its text."""

    name: str
    values: Sequence[float]
    middle: float
    text: str


def strip(lanes: Sequence[Lane], *, title: str) -> Spec:
    """A lane for each of `lanes`; their values are positive."""
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
