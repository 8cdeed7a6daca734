"""Items sold over time."""

from __future__ import annotations

from loadtest.language import ENGLISH, text_in
from loadtest.report.charts.events import event_lines
from loadtest.report.charts.vega import BAD, DIGITS, DIM, INK, PLAIN, SMALL, Spec, axis, by, layer
from loadtest.results.record import Record

_HEIGHT = 160
_STEPS = {"type": "area", "interpolate": "step-after"}
_LINE = {"type": "line", "interpolate": "step-after", "color": INK, "strokeWidth": 2}
_TOTAL = {"type": "text", "align": "right", "dy": -11, "dx": 2, "fontWeight": 700, "fontSize": 20}


def end_s(record: Record) -> float:
    """When the last answer or order came, in seconds."""
    times = [answer.answered_ms for answer in record.answers] + [order.at_ms for order in record.ledger]
    return max(times, default=0.0) / 1000


def sold_over_time(record: Record, *, until_s: float, most: int, language: str = ENGLISH) -> Spec:
    """Steps of one item each against the dashed line of the stock, with the record's events as numbers.

    `until_s` and `most` are the ends of the axes, so that several charts can be compared.
    """
    steps = _steps(record)
    beyond = [step for step in steps if step["sold"] >= record.stock]
    time = axis("s", (0, until_s), title=text_in(language, "axis.seconds"), format=DIGITS)
    title = text_in(language, "sold.axis", stock=f"{record.stock:,}")
    items = axis("sold", (0, most * 1.14), title=title, tickCount=4, ticks=False)
    stock = {"type": "rule", "color": DIM, "strokeDash": [5, 4], "strokeWidth": 1.5}
    return {
        "width": SMALL,
        "height": _HEIGHT,
        "layer": [
            layer(steps, {**_STEPS, "color": PLAIN, "opacity": 0.28}, x=time, y=by("within")),
            layer(beyond, {**_STEPS, "color": BAD, "opacity": 0.6}, x=time, y=by("sold"), y2={"field": "within"}),
            layer(steps, _LINE, x=time, y=items),
            *event_lines(record.events, until_s=until_s),
            layer([{"stock": record.stock}], stock, y=by("stock")),
            layer(steps[-1:], _TOTAL, x=by("s"), y=by("sold"), text={"field": "sold"}),
        ],
    }


def _steps(record: Record) -> list[dict[str, float]]:
    times = [0.0, *sorted(order.at_ms / 1000 for order in record.ledger), end_s(record)]
    counts = [*range(len(record.ledger) + 1), len(record.ledger)]
    return [{"s": s, "sold": sold, "within": min(sold, record.stock)} for s, sold in zip(times, counts, strict=True)]
