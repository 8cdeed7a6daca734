"""The moving picture: what the board sent to a viewer during real rushes, drawn frame by frame in dark and light.

It is drawn afterwards: no camera slows the rushes down, and both colour schemes show the same.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from PIL import Image
from playwright.sync_api import Page

from scripts.screenshots.camera import Camera

Event = tuple[float, str, str]  # milliseconds, kind, data
SHORTEST_MS, LONGEST_MS, RESULT_MS = 40, 1000, 2500  # how long a frame stays, and the last one of a rush
# A page that keeps the events it gets.
KEEP = """
window.kept = [];
window.EventSource = class extends EventSource {
  constructor(url) {
    super(url);
    for (const kind of ["hello", "sample"])
      this.addEventListener(kind, ({ data }) => kept.push([performance.now(), kind, data]));
  }
};"""
# A page that gets the events that another one kept.
REPLAY = """
window.EventSource = class extends EventTarget {
  constructor() {
    super();
    window.replayed = this;
  }
  close() {}
};"""
READY = "() => window.replayed && document.querySelector('#guard option')"
SEND = """([at, kind, data]) => {
  performance.now = () => at;
  replayed.dispatchEvent(new MessageEvent(kind, { data }));
  return new Promise(requestAnimationFrame);
}"""


def kept(page: Page) -> list[Event]:
    """The events that a page opened with `KEEP` got."""
    return [(at, kind, data) for at, kind, data in page.evaluate("kept")]


def draw(camera: Camera, url: str, events: Sequence[Event]) -> None:
    """A moving picture of the events, as the page at `url` shows them, in each view."""
    shown = moments(events)
    stay = [stays_ms(before, after) for before, after in pairwise(shown)] + [RESULT_MS]
    with camera.views(url, script=REPLAY) as views:
        for view in views:
            view.page.wait_for_function(READY)
            first, *rest = [frame(view.page, moment) for moment in shown]
            path = camera.path("board-moving", view, "webp")
            first.save(path, save_all=True, append_images=rest, duration=stay, loop=0, lossless=True, method=4)


def moments(events: Sequence[Event]) -> list[list[Event]]:
    """The events in groups: one that changed the sale, and those after it that did not."""
    found: list[list[Event]] = []
    for event in events:
        if found and sale(event) == sale(found[-1][0]):
            found[-1].append(event)
        else:
            found.append([event])
    return found


def sale(event: Event) -> Any:
    """How the sale stood."""
    return json.loads(event[2])["sale"]


def stays_ms(moment: Sequence[Event], following: Sequence[Event]) -> int:
    """How long a moment is shown: as long as it was, without long pauses; a result longer."""
    (before, after), (now, then) = (sale(moment[0]), sale(following[0])), (moment[0][0], following[0][0])
    if before and before["orders"] and before["generation"] != after["generation"]:
        return RESULT_MS
    return min(max(round(then - now), SHORTEST_MS), LONGEST_MS)


def frame(page: Page, moment: Sequence[Event]) -> Image.Image:
    """What the page shows after these events."""
    for event in moment:
        page.evaluate(SEND, event)
    return Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
