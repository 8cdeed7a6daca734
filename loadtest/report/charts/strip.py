"""Repeated measurements: a tick for each round, a dot for the median, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.report.charts.vega import DIM, LINE, PLAIN, WIDE, Spec, axis, by, layer, room

_LANE = 30
_TEXTS = 130  # width of the texts on the right
_NAME = {"type": "text", "align": "left", "fontWeight": 600}
_TEXT = {"type": "text", "align": "right", "fill": DIM}
_AIR = 1.1  # factor around the outermost values
_DIGITS = ((1, 2, 5), (1, 1.2, 1.5, 2, 3, 5, 7), tuple(digit / 10 for digit in range(10, 100)))
_FEWEST = 3  # ticks; Vega itself leaves some out
_LEAST = 0.001  # there is no logarithm of 0


@dataclass(frozen=True)
class Lane:
    """One line of the chart: all values, the middle one, and its text."""

    name: str
    values: Sequence[float]
    middle: float
    text: str


def strip(lanes: Sequence[Lane], *, title: str) -> Spec:
    """A lane for each of `lanes`."""
    rows = [_row(number, lane) for number, lane in enumerate(lanes)]
    rounds = [{"y": row["y"], "at": at} for row in rows for at in row["values"]]
    outermost = [row["at"] for row in rounds] + [row["middle"] for row in rows]
    ends = (min(outermost) / _AIR, max(outermost) * _AIR)
    ticks = {"values": _round(*ends), "labelOverlap": False, "format": "~r"}
    x = axis("from", ends, title=title, scale={"type": "log"}, grid=True, **ticks)
    y = {"field": "y", "type": "quantitative", "scale": None, "axis": None}
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


def _round(low: float, high: float) -> list[float]:
    """Round numbers between `low` and `high`: at least three, where there are as many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in _DIGITS:
        every = [round(digit * 10.0**power, 6) for power in powers for digit in digits]
        found = [number for number in every if low <= number <= high]
        if len(found) >= _FEWEST:
            break
    return found


def _row(number: int, lane: Lane) -> dict[str, Any]:
    values = [max(value, _LEAST) for value in lane.values]
    return {
        "y": (number + 0.5) * _LANE,
        "name": lane.name,
        "text": lane.text,
        "values": values,
        "from": min(values),
        "to": max(values),
        "middle": max(lane.middle, _LEAST),
    }
