"""Waiting times: a histogram for each sale, one below the other, over the same axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from loadtest.language import ENGLISH, text_in
from loadtest.report.charts.vega import DIM, HALF, INK, PLAIN, Spec, axis, by, layer
from loadtest.results.comparison import Percentiles

_HEIGHT = 36
_NAME = 30
_BINS = 70
_AIR = 1.05  # to the right of the last one


def distributions(waits: Mapping[str, Sequence[float]], language: str = ENGLISH) -> Spec | None:
    """Histograms of milliseconds by name, each to its own highest bar; None if nothing was measured."""
    measured = {name: values for name, values in waits.items() if values}
    if not measured:
        return None
    most = max(max(values) for values in measured.values()) * _AIR or 1.0
    last = list(measured)[-1]
    title = text_in(language, "axis.milliseconds")
    rows = [_row(name, values, most, title=title if name == last else None) for name, values in measured.items()]
    return {"vconcat": rows, "spacing": _NAME, "bounds": "flush"}


def _row(name: str, values: Sequence[float], most: float, *, title: str | None) -> Spec:
    percentiles = Percentiles.of(values)
    labels = title is not None
    ms = axis("from", (0, most), title=title, labels=labels, ticks=labels, domain=True, format=",d")
    width = most / _BINS
    bins = Counter(int(value / width) for value in values)
    rows = [{"from": number * width, "to": (number + 1) * width, "count": bins[number]} for number in bins]
    bar: Spec = {"type": "rect", "color": PLAIN}
    return {
        "width": HALF,
        "height": _HEIGHT,
        "layer": [
            layer(rows, bar, x=ms, x2={"field": "to"}, y={**by("count"), "axis": None}),
            _mark(percentiles.p50, {"strokeWidth": 2.5}),
            _mark(percentiles.p99, {"strokeWidth": 2, "strokeDash": [3, 3]}),
            _text(name, 0, {"align": "left", "fontWeight": 650}),
            _text(f"{percentiles.p50:,.0f} / {percentiles.p99:,.0f}", HALF, {"align": "right", "fill": DIM}),
        ],
    }


def _mark(ms: float | None, look: Spec) -> Spec:
    return layer([{"ms": ms}], {"type": "rule", "color": INK, **look}, x=by("ms"))


def _text(text: str, x: int, look: Spec) -> Spec:
    mark = {"type": "text", "baseline": "bottom", **look}
    return layer([{"text": text}], mark, x={"value": x}, y={"value": -4}, text={"field": "text"})
