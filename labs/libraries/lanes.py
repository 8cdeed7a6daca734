"""A history as lanes: one for each contender, with bars for waiting and holding, and one for what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labs.libraries.history import HistoryEvent
from loadtest.report.charts.vega import BAD, DIM, INK, LINE, PLAIN, Spec, axis, by, layer, pixels, room

WAITS, HOLDS, PAUSED, DOWN = "waits", "holds", "paused", "down"
_BEGINS = {
    "asks": WAITS,
    "asks_for": WAITS,
    "enters_with": WAITS,
    "holds": HOLDS,
    "enter": HOLDS,
    "paused": PAUSED,
    "server_killed": DOWN,
    "cut": DOWN,
}
_ENDS = {
    WAITS: ("holds", "enter", "fails", "gives_up", "not_offered", "cancelled"),
    HOLDS: ("released", "release_fails", "killed", "leave"),
    PAUSED: ("resumed",),
    DOWN: ("server_back", "healed"),
}
_MARKS = {"writes": "w", "told": "!", "fails": "x", "killed": "x", "deleted": "x", "answer_lost": "x"}
_SIGNS = {WAITS: "\u00b7", HOLDS: "\u2588", PAUSED: "\u2591", DOWN: "x"}
_COLUMNS = 60
_WIDTH = 880
_LANE = 28
_MOST_EVENTS = 14


@dataclass(frozen=True)
class LaneBar:
    """Someone waits, holds, or stands still; times are in seconds."""

    actor: str
    kind: str
    from_s: float
    to_s: float


def bars_of(events: Sequence[HistoryEvent]) -> list[LaneBar]:
    """All bars of a history; what does not end lasts until its last event."""
    end_s = max((event.at_s for event in events), default=0.0)
    found = []
    for place, event in enumerate(events):
        kind = _BEGINS.get(event.what)
        if kind is None:
            continue
        later = (each for each in events[place + 1 :] if each.actor == event.actor and each.what in _ENDS[kind])
        last = next(later, None)
        found.append(LaneBar(event.actor, kind, event.at_s, last.at_s if last else end_s))
    return found


def actors_of(events: Sequence[HistoryEvent]) -> list[str]:
    """Who has a lane, in order of appearance; the server and the network come last."""
    names = list(dict.fromkeys(event.actor for event in events))
    return sorted(names, key=lambda name: name in ("server", "network"))


def text_lanes(events: Sequence[HistoryEvent]) -> list[str]:
    """The lanes as lines of characters, under a scale in seconds."""
    end_s = max((event.at_s for event in events), default=0.0) or 1.0
    actors = actors_of(events)
    width = max(map(len, actors), default=0)

    def place(at_s: float) -> int:
        return min(int(at_s / end_s * _COLUMNS), _COLUMNS - 1)

    scale = f"0 s{f'{end_s:.1f} s':>{_COLUMNS - 3}}"
    lines = [f"{'':<{width}}  {scale}"]
    order = (WAITS, HOLDS, PAUSED, DOWN)
    bars = sorted(bars_of(events), key=lambda bar: order.index(bar.kind))
    for actor in actors:
        cells = [" "] * _COLUMNS
        for bar in bars:
            if bar.actor == actor:
                begin, end = place(bar.from_s), place(bar.to_s)
                cells[begin : end + 1] = _SIGNS[bar.kind] * (end - begin + 1)
        for event in events:
            if event.actor == actor and event.what in _MARKS:
                cells[place(event.at_s)] = _MARKS[event.what]
        lines.append(f"{actor:<{width}}  {''.join(cells)}".rstrip())
    return lines


def told_events(events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """The events that are told in words: the first ones, and the last."""
    if len(events) <= _MOST_EVENTS:
        return list(events)
    return [*events[: _MOST_EVENTS - 4], *events[-4:]]


def lane_chart(events: Sequence[HistoryEvent], seconds: str) -> Spec:
    """The lanes as a chart, with `seconds` as the title of its axis."""
    actors = actors_of(events)
    end_s = max((event.at_s for event in events), default=0.0) or 1.0
    colours = {WAITS: LINE, HOLDS: PLAIN, PAUSED: DIM, DOWN: BAD}
    rows = [
        {
            "from": bar.from_s,
            "to": bar.to_s,
            "top": actors.index(bar.actor) * _LANE + (10 if bar.kind == WAITS else 6),
            "bottom": (actors.index(bar.actor) + 1) * _LANE - (10 if bar.kind == WAITS else 6),
            "colour": colours[bar.kind],
        }
        for bar in bars_of(events)
    ]
    marks = [
        {"at": event.at_s, "y": (actors.index(event.actor) + 0.5) * _LANE, "text": _MARKS[event.what]}
        for event in events
        if event.what in _MARKS
    ]
    names = [{"y": (place + 0.5) * _LANE, "name": actor} for place, actor in enumerate(actors)]
    left = room(actors)
    x = axis("from", (0, end_s), title=seconds, tickCount=8, domain=True)
    colour: dict[str, Any] = {"field": "colour", "type": "nominal", "scale": None}
    text = {"field": "text"}
    return {
        "width": _WIDTH - left,
        "height": len(actors) * _LANE,
        "layer": [
            layer(
                rows, {"type": "rect"}, x=x, x2={"field": "to"}, y=pixels("top"), y2={"field": "bottom"}, fill=colour
            ),
            layer(marks, {"type": "text", "fontWeight": 700, "fill": INK}, x=by("at"), y=pixels("y"), text=text),
            layer(names, {"type": "text", "align": "left"}, x={"value": -left}, y=pixels("y"), text={"field": "name"}),
        ],
    }
