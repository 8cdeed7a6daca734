"""How long a rush is foreseen to take with more and more instances: a lane for each guard."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loadtest.report.charts.strip import Lane, strip
from loadtest.report.charts.vega import draw
from loadtest.simulate.prediction import Prediction

# A picture in a document has no page around it that says what its colours are.
_COLOURS = (
    "<style>:root{--ink:#0e131a;--dim:#4a5666;--line:#c3ccd8;--left:#1668d8}"
    "@media(prefers-color-scheme:dark){:root{--ink:#f3f6fa;--dim:#a9b4c2;--line:#3a4556;--left:#4da3ff}}</style>"
)


def picture(made: Sequence[Prediction]) -> str | None:
    """An SVG file: a tick for each number of instances, a dot for the largest; None where it cannot be drawn."""
    lanes = []
    for guard in dict.fromkeys(each.setting.guard for each in made):
        walls = [min(each.wall_s, each.setting.horizon_s) for each in made if each.setting.guard == guard]
        lanes.append(Lane(guard, walls, walls[-1], " / ".join(f"{wall:.0f}" for wall in walls) + " s"))
    numbers = ", ".join(dict.fromkeys(f"{each.setting.instances:,}" for each in made))
    drawn = draw(strip(lanes, title=f"seconds to the last answer with {numbers} instances"))
    return None if drawn is None else re.sub(r"(<svg[^>]*>)", rf"\1{_COLOURS}", str(drawn), count=1) + "\n"
