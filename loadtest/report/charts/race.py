"""The first race, magnified: sections that read the stock before another had written it."""

from __future__ import annotations

from collections.abc import Sequence

from loadtest.language import ENGLISH, text_in
from loadtest.report.charts.vega import BAD, DIGITS, INK, LINE, PLAIN, WIDE, Spec, axis, by, layer, pixels
from loadtest.results.audit import Audit
from loadtest.results.record import CriticalSection

_MOST = 8  # sections
_LANE = 36
_NAME = 190
_VALUES = 190  # of what was read and written, on the right


def race(audit: Audit) -> list[CriticalSection]:
    """The first section that raced and its rivals, in the order of entering; empty if none raced."""
    if not audit.raced:
        return []
    first = min((overlap.first for overlap in audit.raced), key=lambda section: section.entered_ms)
    rivals = [overlap.second for overlap in audit.raced if overlap.first is first]
    return [first, *sorted(rivals, key=lambda section: section.entered_ms)[: _MOST - 1]]


def magnified(sections: Sequence[CriticalSection], language: str = ENGLISH) -> Spec | None:
    """A lane for each buyer, in milliseconds from the first entry; None if there is none."""
    if not sections:
        return None
    zero = sections[0].entered_ms
    rows = [
        {
            "lane": lane * _LANE,
            "buyer": section.buyer,
            "from": section.entered_ms - zero,
            "to": (section.left_ms or section.entered_ms) - zero,
            "values": _values(section, language),
            "read": None if section.read_ms is None else section.read_ms - zero,
            "write": None if section.commit_ms is None else section.commit_ms - zero,
        }
        for lane, section in enumerate(sections)
    ]
    ends = (0.0, (max(section.left_ms or section.entered_ms for section in sections) - zero) * 1.02)
    ms = axis("from", ends, title=text_in(language, "race.axis"), format=DIGITS, domain=True)
    lane = pixels("lane")
    width = WIDE - _NAME - _VALUES
    name = {"type": "text", "align": "left", "fill": INK, "limit": _NAME - 12}
    values = {"type": "text", "align": "right"}
    return {
        "width": width,
        "height": _LANE * len(rows) - _LANE / 2,
        "layer": [
            layer(rows, {"type": "rule", "color": LINE, "strokeWidth": _LANE * 0.6}, x=ms, x2={"field": "to"}, y=lane),
            layer(rows, name, x={"value": -_NAME}, y=lane, text={"field": "buyer"}),
            layer(rows, values, x={"value": width + _VALUES}, y=lane, text={"field": "values"}),
            layer(rows, {**_POINT, "shape": "circle", "color": PLAIN}, x=by("read"), y=lane),
            layer(rows, {**_POINT, "shape": "diamond", "color": BAD, "fill": BAD}, x=by("write"), y=lane),
        ],
    }


def _values(section: CriticalSection, language: str) -> str:
    if section.stock is None:
        return ""
    return text_in(language, "race.values", read=section.stock + 1, wrote=section.stock)


_POINT = {"type": "point", "size": 170, "strokeWidth": 3, "opacity": 1, "invalid": "filter"}
