"""The events of a sale as numbered lines across a chart; the page has their texts."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.report.charts.vega import INK, Spec, by, layer
from loadtest.results.record import FaultEvent

_CLOSE = 0.04  # of the axis: numbers that would touch are put together


def event_lines(events: Sequence[FaultEvent], *, until_s: float) -> list[Spec]:
    """A line for each event, with its number above."""
    times = [{"s": event.at_ms / 1000} for event in events]
    line = {"type": "rule", "color": INK, "strokeWidth": 1.5, "strokeDash": [2, 3]}
    number = {"type": "text", "baseline": "bottom", "align": "left", "dx": -3, "dy": -3, "fontWeight": 700}
    return [
        layer(times, line, x=by("s")),
        layer(_numbers(events, until_s), number, x=by("s"), y={"value": 0}, text={"field": "numbers"}),
    ]


def _numbers(events: Sequence[FaultEvent], until_s: float) -> list[dict[str, object]]:
    groups: list[tuple[float, list[int]]] = []
    for number, event in enumerate(events, 1):
        at_s = event.at_ms / 1000
        if groups and at_s - groups[-1][0] < _CLOSE * until_s:
            groups[-1][1].append(number)
        else:
            groups.append((at_s, [number]))
    return [{"s": at_s, "numbers": ", ".join(map(str, numbers))} for at_s, numbers in groups]
