"""Charts are drawn by Vega-Lite (vl-convert carries it, and needs no network), as SVG that is part of the page.

Colours are the page's own CSS variables, so that one drawing serves light and dark. Nothing in a chart is said by
colour alone, and every chart has its figures next to it as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup as Markup

try:
    import vl_convert
except ImportError:  # there is no wheel for every platform
    vl_convert = None  # type: ignore[assignment]

Spec = dict[str, Any]

SMALL, HALF, WIDE = 350, 420, 1100  # widths for which charts are laid out; the page scales them
TEXT = 15
_WIDEST, _GAP = 0.72 * TEXT, 14  # of a letter in bold Verdana or DejaVu, on average; behind a name
FONT = "Inter, 'Segoe UI', system-ui, sans-serif"
INK, DIM, LINE = "var(--ink)", "var(--dim)", "var(--line)"
GOOD, BAD, WARN, PLAIN = "var(--good)", "var(--bad)", "var(--warn)", "var(--left)"
PANEL = "var(--panel)"
DIGITS = ".3~f"  # of seconds and milliseconds on an axis
INSTANCES = ["var(--a)", "var(--b)", "var(--c)", "var(--d)"]

_AXIS = {
    "labelColor": DIM,
    "titleColor": DIM,
    "gridColor": LINE,
    "domainColor": LINE,
    "tickColor": LINE,
    "labelFontSize": TEXT,
    "titleFontSize": TEXT,
    "titleFontWeight": 500,
    "labelPadding": 6,
    "titlePadding": 8,
}
_CONFIG = {
    "aria": False,  # the page names each chart, and has its figures as text
    "font": FONT,
    "view": {"stroke": None},
    "axis": _AXIS,
    "axisX": {"grid": False, "labelFlush": False},  # or Vega moves the first and the last label off their ticks
    "text": {"fill": INK, "fontSize": TEXT},
    "title": {"color": INK, "fontSize": TEXT, "fontWeight": 650, "anchor": "start", "offset": 6},
    "legend": {"labelColor": DIM, "titleColor": DIM, "labelFontSize": TEXT, "titleFontSize": TEXT, "orient": "top"},
}


def draw(spec: Spec) -> Markup | None:
    """The chart as an SVG element; None where it cannot be drawn on this platform."""
    if vl_convert is None:
        return None
    drawn = vl_convert.vegalite_to_svg({"background": None, "padding": 4, **spec, "config": _CONFIG}, vl_version="6.4")
    return Markup(_joined(_rounded(_scalable(drawn))))  # Vega has escaped all text


def _scalable(svg: str) -> str:
    """Without a size of its own: as wide as its place in the page."""
    return re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r'\1 aria-hidden="true"', svg, count=1)


def _rounded(svg: str) -> str:
    """Positions to a tenth of a pixel."""
    return re.sub(r' (?:d|transform)="[^"]*"', lambda found: re.sub(r"(\.\d)\d+", r"\1", found[0]), svg)


def _joined(svg: str) -> str:
    """Neighbours that look the same are one shape: thousands of bars are a third of the size."""

    def join(found: re.Match[str]) -> str:
        return f'<path d="{"".join(_SHAPE.findall(found[0]))}"{found[1]}/>'

    return re.sub(r'<path d="[^"]*"([^>]*)/>(?:<path d="[^"]*"\1/>)+', join, svg)


_SHAPE = re.compile(r' d="([^"]*)"')


def room(names: Iterable[str]) -> float:
    """Width for the longest name: the reader's font may be wider than the one that Vega measures with."""
    return _WIDEST * max(map(len, names), default=0) + _GAP


def layer(rows: Sequence[Mapping[str, Any]], mark: dict[str, Any], **encoding: Any) -> Spec:
    """One layer of a chart, with data of its own."""
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def by(field: str) -> Spec:
    """A channel that shows a number, on the scale of the layers around it."""
    return {"field": field, "type": "quantitative", "stack": None}


def axis(field: str, ends: tuple[float, float], *, title: str | None = None, **settings: Any) -> Spec:
    """The same, and with the scale and the axis that it has."""
    scale = {"domain": list(ends), "nice": False, **settings.pop("scale", {})}
    return {**by(field), "scale": scale, "axis": {"title": title, "domain": False, "tickCount": 5, **settings}}
