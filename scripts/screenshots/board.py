"""The board: an oversold sale, the middle of an exact one, and a record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Page, expect

from scripts.screenshots.camera import CHINESE, ENGLISH, PATIENCE_MS, Camera, View

HOLD_MS = 10
MID_RUSH = 120  # items sold when the picture is taken
OVER_EVERY_MS = 250
# Items sold in a finished rush, as Locust's page tells.
OVER = """async (guard) => {
  const ask = async (path) => (await fetch(path)).json();
  const run = (await ask("/comparison.json"))?.runs.find((run) => run.guard === guard);
  return (await ask("/stats/requests")).state === "stopped" && run?.orders;
}"""
SOLD_UNDER = """([guard, least]) => document.querySelector("#runs .current button")?.textContent === guard
  && Number(document.querySelector("#figures [data-key=sold] dd")?.textContent) >= least"""


def photograph(camera: Camera, url: str, locust_url: str, record: Path) -> None:
    """Send the rushes from the board at `url`, which asks Locust's page for them, and then open the record."""
    locust = camera.browser.new_page()
    locust.goto(locust_url)
    with camera.views(url, locales=[ENGLISH, CHINESE]) as views:
        for view in views:
            expect(view.page.locator("#source")).to_have_attribute("data-state", "live", timeout=PATIENCE_MS)
        first = views[0].page
        rush(first, "none", 0)
        wait_end(views, locust, "none")
        end_story(views)
        camera.shoot(views, "board-oversold")
        rush(first, "etcd", HOLD_MS)
        wait_sold(views, "etcd", MID_RUSH)
        camera.shoot(views, "board-rush")
        wait_end(views, locust, "etcd")
        end_story(views)
        for view in views:
            view.page.set_input_files("#file", record)
            view.page.wait_for_selector("#close-record:visible")
        camera.shoot(views, "board-fault")
    locust.close()


def rush(page: Page, guard: str, hold_ms: int) -> None:
    """Start the rush, as a visitor of the board would."""
    if page.locator("#controls").is_hidden():
        page.click("#toggle-controls")
    page.select_option("#guard", guard)
    page.focus("#think")
    page.keyboard.press("Home")
    for _ in range(20):
        if page.inner_text("#think-time") == f"{hold_ms} ms":
            break
        page.keyboard.press("ArrowRight")
    page.click("#toggle-controls")
    page.click("#start:enabled")


def end_story(views: Sequence[View]) -> None:
    """Wait until the rush explains itself, as the first one under a guard does, and go on to the whole."""
    for view in views:
        view.page.wait_for_selector(".story")
        view.page.keyboard.press("Escape")
        view.page.wait_for_selector(".story", state="detached")


def wait_sold(views: Sequence[View], guard: str, least: int) -> None:
    """Wait until all viewers see the rush under this guard and at least so many sold."""
    for view in views:
        view.page.wait_for_function(SOLD_UNDER, arg=[guard, least])


def wait_end(views: Sequence[View], locust: Page, guard: str) -> None:
    """Wait until Locust is ready for the next rush and all viewers see all of this one."""
    until = time.monotonic() + PATIENCE_MS / 1000
    while not (sold := locust.evaluate(OVER, guard)):  # wait_for_function takes a promise for true
        if time.monotonic() > until:
            raise TimeoutError(f"The rush under {guard} is not over after {PATIENCE_MS / 1000:.0f} s.")
        locust.wait_for_timeout(OVER_EVERY_MS)
    wait_sold(views, guard, sold)
