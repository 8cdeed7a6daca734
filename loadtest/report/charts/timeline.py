"""The timeline of critical sections: bars in lanes by instance, overlaps shaded behind them."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.language import ENGLISH, text_in
from loadtest.report.charts.events import event_lines
from loadtest.report.charts.lanes import Bar, bars
from loadtest.report.charts.vega import BAD, DIGITS, DIM, INK, INSTANCES, PANEL, WIDE, Spec, axis, by, layer, pixels
from loadtest.results.audit import Audit
from loadtest.results.overlaps import joined
from loadtest.results.record import Record

_HEIGHT = 150  # of an instance with many lanes
_LOWEST, _HIGHEST = 1.0, 34.0  # lanes
_NAME = 26
_CROSS = "M-0.8,-0.8L0.8,0.8M-0.8,0.8L0.8,-0.8"


def timeline(record: Record, audit: Audit, *, until_s: float, language: str = ENGLISH) -> Spec | None:
    """All critical sections on one time axis; None if none was recorded."""
    drawn = bars(record)
    if not drawn:
        return None
    names = sorted({bar.instance for bar in drawn})
    lanes = {name: 1 + max(bar.lane for bar in drawn if bar.instance == name) for name in names}
    lane = min(max(_HEIGHT / max(lanes.values()), _LOWEST), _HIGHEST)
    tops, height = {}, 0.0
    for name, count in lanes.items():
        tops[name] = height + _NAME
        height += _NAME + count * lane
    return {
        "width": WIDE,
        "height": height,
        "layer": [
            *_shades(audit, height),
            _bars(drawn, tops, lane, until_s, text_in(language, "axis.seconds")),
            _deaths([bar for bar in drawn if not bar.ended], tops, lane),
            *event_lines(record.events, until_s=until_s),
            *_names(tops, lanes, language),
        ],
    }


def _bars(drawn: Sequence[Bar], tops: dict[str, float], lane: float, until_s: float, title: str) -> Spec:
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
    seconds = axis("from", (0, until_s), title=title, format=DIGITS, tickCount=10, domain=True)
    colour = {"field": "colour", "type": "nominal", "scale": None}
    return layer(
        rows,
        {"type": "rect", "strokeWidth": 0.6},
        x=seconds,
        x2={"field": "to"},
        y=pixels("top"),
        y2={"field": "bottom"},
        fill=colour,
        stroke=colour,
        opacity={"field": "opacity", "type": "quantitative", "scale": None},
    )


def _deaths(drawn: Sequence[Bar], tops: dict[str, float], lane: float) -> Spec:
    """A cross where a process that died inside was last seen."""
    rows = [{"to": bar.to_ms / 1000, "middle": tops[bar.instance] + (bar.lane + 0.5) * lane} for bar in drawn]
    mark = {"type": "point", "shape": _CROSS, "size": 260, "stroke": INK, "strokeWidth": 3.5, "opacity": 1}
    return layer(rows, mark, x=by("to"), y=pixels("middle"))


def _shades(audit: Audit, height: float) -> list[Spec]:
    """Where sections were open at once, and in another colour from each read to the write by which it lost sales."""
    losing = joined(
        sorted(
            (write.section.answered_ms or write.section.entered_ms, write.at_ms)
            for write in audit.losses.losing
            if write.section and write.at_ms is not None
        )
    )
    return [
        _shade(audit.overlaps.spans, DIM, 0.25, height),
        _shade(losing, PANEL, 1.0, height),
        _shade(losing, BAD, 0.36, height),
    ]


def _shade(times: Sequence[tuple[float, float]], colour: str, opacity: float, height: float) -> Spec:
    rows = [{"from": from_ms / 1000, "to": to_ms / 1000, "top": 0, "bottom": height} for from_ms, to_ms in times]
    mark = {"type": "rect", "color": colour, "opacity": opacity}
    return layer(rows, mark, x=by("from"), x2={"field": "to"}, y=pixels("top"), y2={"field": "bottom"})


def _names(tops: dict[str, float], lanes: dict[str, int], language: str) -> list[Spec]:
    keys = {name: "timeline.one" if count == 1 else "timeline.several" for name, count in lanes.items()}
    words = {name: text_in(language, key, name=name, n=lanes[name]) for name, key in keys.items()}
    rows = [{"y": top - 6, "text": words[name]} for name, top in tops.items()]
    halo = {"stroke": PANEL, "strokeWidth": 5}
    mark = {"type": "text", "align": "left", "baseline": "bottom", "fill": INK, "fontWeight": 600, **halo}
    return [layer(rows, mark, x={"value": 4}, y=pixels("y"), text={"field": "text"})]
