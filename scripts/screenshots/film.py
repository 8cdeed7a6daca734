"""The moving picture: the slow motion of two real rushes, event by event, in dark and light.

A race from the first items to the first lost update, and then as many events under a lock.
"""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from scripts.screenshots.camera import CHINESE, ENGLISH, WIDTH, Camera

EVENT_MS, RESULT_MS = 900, 3500  # how long a frame stays, and the last one of a record
AFTER_RESULT = 1  # events shown after the lost update
LOCKED_EVENTS = 14
HEIGHT = 640  # below it the player is empty
# How many events led to what is shown; the clock ends in "event 8 of 60".
NUMBER = "Number(document.querySelector('.slow .tools output').textContent.match(/(\\d+) \\S+ \\d+$/)[1])"


def film_slow_motion(camera: Camera, url: str, race: Path, locked: Path) -> None:
    """Film both records in the player of the board at `url`."""
    with camera.views(url, locales=[ENGLISH, CHINESE]) as views:
        for view in views:
            _open_player(view.page, race)
            view.page.click(".slow [data-do=lost]")
            frames = _frames(view.page, view.page.evaluate(NUMBER) + AFTER_RESULT)
            _open_player(view.page, locked)
            frames += _frames(view.page, LOCKED_EVENTS)
            stay = [EVENT_MS] * len(frames)
            stay[-LOCKED_EVENTS - 1] = stay[-1] = RESULT_MS
            path = camera.path("board-moving", view, "webp")
            first, *rest = frames
            first.save(path, save_all=True, append_images=rest, duration=stay, loop=0, lossless=True, method=4)


def _open_player(page: Page, record: Path) -> None:
    page.keyboard.press("Escape")
    page.set_input_files("#file", record)
    page.click("#slow-motion:visible")
    page.wait_for_selector(".slow .sentence")


def _frames(page: Page, last: int) -> list[Image.Image]:
    """What the player shows after the first event, the second one, and so on."""
    page.focus(".slow")
    page.keyboard.press("Home")
    return [_press(page, "ArrowRight") for _ in range(last)]


def _press(page: Page, key: str) -> Image.Image:
    page.keyboard.press(key)
    shot = page.screenshot(animations="disabled", clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
    return Image.open(io.BytesIO(shot)).convert("RGB")
