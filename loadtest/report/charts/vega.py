"""Charts by Vega-Lite (vl-convert carries it, and needs no network), as SVG inside the page.

Colours are the page's CSS variables, so that one drawing serves light and dark. No meaning depends on colour alone,
and the page has the figures of every chart as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

try:
    import vl_convert
except ImportError:  # some platforms have no wheel
    vl_convert = None  # type: ignore[assignment]

Spec = dict[str, Any]

SMALL, HALF, WIDE = 350, 420, 1100  # widths; the page scales the charts
TEXT = 15
_WIDEST, _GAP = 0.72 * TEXT, 14  # an average letter in bold Verdana or DejaVu; the space behind a name
FONT = "Inter, 'Segoe UI', system-ui, sans-serif"
INK, DIM, LINE = "var(--ink)", "var(--dim)", "var(--line)"
BAD, PLAIN = "var(--bad)", "var(--accent)"
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
    "aria": False,  # the page names each chart
    "font": FONT,
    "view": {"stroke": None},
    "axis": _AXIS,
    "axisX": {"grid": False, "labelFlush": False},  # or Vega moves the outer labels off their ticks
    "text": {"fill": INK, "fontSize": TEXT},
}


def chart_svg(spec: Spec | None) -> Markup | None:
    """The chart as an SVG element; None if there is nothing to draw, or vl-convert is not installed."""
    if spec is None or (drawn := draw({"background": None, "padding": 4, **spec, "config": _CONFIG})) is None:
        return None
    unsized = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r'\1 aria-hidden="true"', drawn, count=1)
    return Markup(unsized)  # Vega has escaped all text


def draw(spec: Spec) -> str | None:
    """The drawing as an SVG document; None if vl-convert is not installed."""
    return None if vl_convert is None else str(vl_convert.vegalite_to_svg(spec, vl_version="6.4"))


def room(names: Iterable[str]) -> float:
    """Width for the longest name; the reader's font may be wider than the one that Vega measures with."""
    return _WIDEST * max(map(len, names), default=0) + _GAP


def layer(rows: Sequence[Mapping[str, Any]], mark: dict[str, Any], **encoding: Any) -> Spec:
    """One layer of a chart, with its own data."""
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def by(field: str) -> Spec:
    """A channel for a number, on the scale of the layers around it."""
    return {"field": field, "type": "quantitative", "stack": None}


def pixels(field: str) -> Spec:
    """A channel in pixels, of y from the top of the chart."""
    return {"field": field, "type": "quantitative", "scale": None, "axis": None}


def axis(field: str, ends: tuple[float, float], *, title: str | None = None, **settings: Any) -> Spec:
    """A channel for a number, with its scale and its axis."""
    scale = {"domain": list(ends), "nice": False, **settings.pop("scale", {})}
    return {**by(field), "scale": scale, "axis": {"title": title, "domain": False, "tickCount": 5, **settings}}
