"""The picture of the click: the CPU time that each guard costs an instance, and who has its interpreter meanwhile."""

from __future__ import annotations

from labs.bench.profile import PARTS
from labs.bench.result import BenchResult, Row
from loadtest.report.charts.vega import draw

_WIDTH, _BAR, _TEXT = 620, 26, 13
_INK, _FONT = "#808080", "Inter, 'Segoe UI', system-ui, sans-serif"  # legible on light and on dark
_COLORS = ["#9aa5b1", "#5b8db8", "#d9822b", "#8f6bb1", "#c9b458", "#4a9d6e", "#c8553d", "#c4c4c4"]


def click_picture(result: BenchResult) -> str | None:
    """An SVG that stands alone, of the clicks with log and board; None where none was sampled, or as `draw`."""
    rows = [row for row in result.part("click") if row.shares and row.case.observed and row.case.pinned]
    if not rows:
        return None
    text = {"labelColor": _INK, "titleColor": _INK, "labelFontSize": _TEXT, "titleFontSize": _TEXT}
    legend = {"title": None, "orient": "bottom", "labelColor": _INK, "labelFontSize": _TEXT, "columns": len(PARTS)}
    title = "CPU ms of the instance for a click, divided as the samples of its interpreter are"
    spec = {
        "width": _WIDTH,
        "height": {"step": _BAR},
        "background": None,
        "data": {"values": [bar for row in rows for bar in _bars(row)]},
        "mark": "bar",
        "encoding": {
            "y": {"field": "guard", "type": "nominal", "sort": None, "axis": {"title": None, "ticks": False, **text}},
            "x": {"field": "ms", "type": "quantitative", "axis": {"title": title, "grid": False, **text}},
            "color": {"field": "part", "scale": {"domain": list(PARTS), "range": _COLORS}, "legend": legend},
            "order": {"field": "place", "type": "quantitative"},
        },
        "config": {"font": _FONT, "view": {"stroke": None}, "axis": {"domainColor": _INK, "tickColor": _INK}},
    }
    return draw(spec)


def _bars(row: Row) -> list[dict[str, object]]:
    ms = row.cpu_ms["instances"]
    return [
        {"guard": row.case.guard, "part": part, "place": place, "ms": ms * row.shares[part]}
        for place, part in enumerate(PARTS)
    ]
