"""The timeline of critical sections: a bar for each, lanes by instance, and the overlaps shaded behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadtest.report.charts.events import event_lines
from loadtest.report.charts.lanes import Bar, bars
from loadtest.report.charts.vega import BAD, DIGITS, DIM, INK, INSTANCES, PANEL, WIDE, Spec, axis, by, layer
from loadtest.results.audit import Audit
from loadtest.results.overlaps import joined
from loadtest.results.record import Record

_HEIGHT = 150  # of the lanes of one instance, if it has enough of them
_LOWEST, _HIGHEST = 1.0, 34.0  # lanes
_NAME = 26
_CROSS = "M-0.8,-0.8L0.8,0.8M-0.8,0.8L0.8,-0.8"


def timeline(record: Record, found: Audit, *, until_s: float) -> Spec | None:
    """The whole record on one time axis; None if no critical section was recorded."""
    drawn = bars(record)
    if not drawn:
        return None
    lanes = {name: 1 + max(bar.lane for bar in drawn if bar.instance == name) for name in _instances(drawn)}
    lane = min(max(_HEIGHT / max(lanes.values()), _LOWEST), _HIGHEST)
    tops = _tops(lanes, lane)
    height = sum(lanes.values()) * lane + len(lanes) * _NAME
    return {
        "width": WIDE,
        "height": height,
        "layer": [
            *_shades(found, height),
            _bars(drawn, tops, lane, until_s),
            _deaths([bar for bar in drawn if not bar.ended], tops, lane),
            *event_lines(record.events, until_s=until_s),
            *_names(tops, lanes),
        ],
    }


def _instances(drawn: Sequence[Bar]) -> list[str]:
    return sorted({bar.instance for bar in drawn})


def _tops(lanes: Mapping[str, int], lane: float) -> dict[str, float]:
    """Where the lanes of each instance begin, below its name."""
    heights = [_NAME + count * lane for count in lanes.values()]
    return {name: sum(heights[:number]) + _NAME for number, name in enumerate(lanes)}


def _bars(drawn: Sequence[Bar], tops: dict[str, float], lane: float, until_s: float) -> Spec:
    gap = min(lane / 4, 2.0)
    rows = [
        {
            "from": bar.from_ms / 1000,
            "to": bar.to_ms / 1000,
            "top": tops[bar.instance] + bar.lane * lane,
            "bottom": tops[bar.instance] + (bar.lane + 1) * lane - gap,
            "colour": INSTANCES[list(tops).index(bar.instance) % len(INSTANCES)],
            "opacity": 1.0 if bar.sold or not bar.ended else 0.4,
        }
        for bar in sorted(drawn, key=lambda bar: (bar.instance, bar.sold or not bar.ended))
    ]
    seconds = axis("from", (0, until_s), title="seconds", format=DIGITS, tickCount=10, domain=True)
    colour = {"field": "colour", "type": "nominal", "scale": None}
    return layer(
        rows,
        {"type": "rect", "strokeWidth": 0.6},
        x=seconds,
        x2={"field": "to"},
        y=_pixels("top"),
        y2={"field": "bottom"},
        fill=colour,
        stroke=colour,
        opacity={"field": "opacity", "type": "quantitative", "scale": None},
    )


def _deaths(drawn: Sequence[Bar], tops: dict[str, float], lane: float) -> Spec:
    """A cross for each process that died inside, at the last that is known of it."""
    rows = [{"to": bar.to_ms / 1000, "middle": tops[bar.instance] + (bar.lane + 0.5) * lane} for bar in drawn]
    mark = {"type": "point", "shape": _CROSS, "size": 260, "stroke": INK, "strokeWidth": 3.5, "opacity": 1}
    return layer(rows, mark, x=by("to"), y=_pixels("middle"))


def _shades(found: Audit, height: float) -> list[Spec]:
    """Behind all lanes: where sections were open at once, and in another colour where they raced."""
    raced = joined((pair.from_ms, pair.to_ms) for pair in found.raced)
    return [
        _shade(found.overlaps.spans, DIM, 0.25, height),
        _shade(raced, PANEL, 1.0, height),
        _shade(raced, BAD, 0.36, height),
    ]


def _shade(times: Sequence[tuple[float, float]], colour: str, opacity: float, height: float) -> Spec:
    rows = [{"from": from_ms / 1000, "to": to_ms / 1000, "top": 0, "bottom": height} for from_ms, to_ms in times]
    mark = {"type": "rect", "color": colour, "opacity": opacity}
    return layer(rows, mark, x=by("from"), x2={"field": "to"}, y=_pixels("top"), y2={"field": "bottom"})


def _names(tops: dict[str, float], lanes: dict[str, int]) -> list[Spec]:
    def words(count: int) -> str:
        return "one at a time" if count == 1 else f"up to {count} at once"

    rows = [{"y": top - 6, "text": f"{name}: {words(lanes[name])}"} for name, top in tops.items()]
    halo = {"stroke": PANEL, "strokeWidth": 5}
    mark = {"type": "text", "align": "left", "baseline": "bottom", "fill": INK, "fontWeight": 600, **halo}
    return [layer(rows, mark, x={"value": 4}, y=_pixels("y"), text={"field": "text"})]


def _pixels(field: str) -> Spec:
    """From the top of the chart."""
    return {"field": field, "type": "quantitative", "scale": None, "axis": None}
