"""Items sold over time."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.report.charts.events import event_lines
from loadtest.report.charts.vega import BAD, DIGITS, DIM, INK, PANEL, PLAIN, SMALL, Spec, axis, by, layer
from loadtest.results.record import Record
from loadtest.results.text import counted

_HEIGHT = 160
Step = dict[str, float]
_FIRST_THIRD, _LOW = 0.33, 0.75
_STEPS = {"type": "area", "interpolate": "step-after"}
_LINE = {"type": "line", "interpolate": "step-after", "color": INK, "strokeWidth": 2}
_TOTAL = {"type": "text", "align": "right", "dy": -11, "dx": 2, "fontWeight": 700, "fontSize": 20}


def end_s(record: Record) -> float:
    """When the last answer or order came, in seconds."""
    times = [answer.answered_ms for answer in record.answers] + [order.at_ms for order in record.ledger]
    return max(times, default=0.0) / 1000


def sold_over_time(record: Record, *, until_s: float, most: int, width: int = SMALL) -> Spec:
    """Steps of one item each against the line of the stock, with the record's events as numbers.

    `until_s` and `most` are the ends of the axes, so that several charts can be compared.
    """
    steps = _steps(record)
    beyond = [step for step in steps if step["sold"] >= record.stock]
    time = axis("s", (0, until_s), title="seconds", format=DIGITS)
    items = axis("sold", (0, most * 1.14), tickCount=4, ticks=False)
    return {
        "width": width,
        "height": _HEIGHT,
        "layer": [
            layer(steps, {**_STEPS, "color": PLAIN, "opacity": 0.28}, x=time, y=by("within")),
            layer(beyond, {**_STEPS, "color": BAD, "opacity": 0.6}, x=time, y=by("sold"), y2={"field": "within"}),
            layer(steps, _LINE, x=time, y=items),
            *event_lines(record.events, until_s=until_s),
            *_stock(steps, record.stock, width, until_s),
            layer(steps[-1:], _TOTAL, x=by("s"), y=by("sold"), text={"field": "sold"}),
        ],
    }


def _steps(record: Record) -> list[Step]:
    times = [0.0, *sorted(order.at_ms / 1000 for order in record.ledger), end_s(record)]
    counts = [*range(len(record.ledger) + 1), len(record.ledger)]
    return [{"s": s, "sold": sold, "within": min(sold, record.stock)} for s, sold in zip(times, counts, strict=True)]


def _stock(steps: Sequence[Step], stock: int, width: int, until_s: float) -> list[Spec]:
    """The line of the stock, and its name beside the steps."""
    rows = [{"stock": stock, "items": counted(stock, "item")}]
    soon = sum(step["s"] < _FIRST_THIRD * until_s for step in steps) > _LOW * stock
    side, x = ({"align": "right", "dy": 12}, width) if soon else ({"align": "left", "dy": -10}, 5)
    side |= {"stroke": PANEL, "strokeWidth": 5}  # no line crosses it
    return [
        layer(rows, {"type": "rule", "color": DIM, "strokeDash": [5, 4], "strokeWidth": 1.5}, y=by("stock")),
        layer(rows, {"type": "text", "fill": DIM, **side}, x={"value": x}, y=by("stock"), text={"field": "items"}),
    ]
