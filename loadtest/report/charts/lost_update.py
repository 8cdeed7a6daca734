"""The first lost update, magnified: the sales that were overwritten, and the purchase that wrote over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.language import ENGLISH, text_in
from loadtest.report.charts.vega import BAD, DIGITS, INK, LINE, PLAIN, WIDE, Spec, axis, by, layer, pixels
from loadtest.results.losses import Losses, Write
from loadtest.results.record import CriticalSection

_MOST = 8  # lanes
_LANE = 36
_NAME = 190
_VALUES = 190  # of what was read and written, on the right


@dataclass(frozen=True)
class Lane:
    """A purchase and its write."""

    section: CriticalSection
    write: Write

    @property
    def read_ms(self) -> float | None:
        """When it knew the stock."""
        return self.section.answered_ms or self.section.read_ms

    @property
    def read(self) -> int | None:
        return None if self.write.after is None else self.write.after + 1


def first_lost_update(losses: Losses) -> list[Lane]:
    """The overwritten purchases, without those in the middle if they are many, and the one over them; or none."""
    if not losses.losing:
        return []
    first, writes = losses.losing[0], {write.entry: write for write in losses.writes}
    overwritten = [writes[entry] for entry in first.overwrote]
    if len(overwritten) >= _MOST:
        overwritten[_MOST - 2 : -1] = []
    return [Lane(write.section, write) for write in [*overwritten, first] if write.section]


def magnified(lanes: Sequence[Lane], language: str = ENGLISH) -> Spec | None:
    """A lane for each purchase, in milliseconds from the first entry; None if there is none."""
    if not lanes:
        return None
    zero = min(each.section.entered_ms for each in lanes)
    end = max(each.section.left_ms or each.section.entered_ms for each in lanes)
    rows = [
        {
            "lane": number * _LANE,
            "buyer": each.section.buyer,
            "from": each.section.entered_ms - zero,
            "to": (each.section.left_ms or end) - zero,
            "values": _values(each.write.after, language),
            "read": None if each.read_ms is None else each.read_ms - zero,
            "write": None if each.write.at_ms is None else each.write.at_ms - zero,
        }
        for number, each in enumerate(lanes)
    ]
    ms = axis("from", (0.0, (end - zero) * 1.02), title=text_in(language, "lost.axis"), format=DIGITS, domain=True)
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


def _values(after: int | None, language: str) -> str:
    return "" if after is None else text_in(language, "lost.values", read=after + 1, wrote=after)


_POINT = {"type": "point", "size": 170, "strokeWidth": 3, "opacity": 1, "invalid": "filter"}
