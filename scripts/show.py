"""Photographs the board in a real rush and a real fault, for README.md and docs: python scripts/show.py (make show).

With ``--every DIRECTORY`` also what only its makers look at: every scene in every size, dark and light.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from loadtest.locust_page import LocustPage  # noqa: E402
from loadtest.ports import free_port  # noqa: E402
from loadtest.process import scratch_directory  # noqa: E402
from loadtest.stack import Stack  # noqa: E402
from scripts.chromium import find_chromium  # noqa: E402

IMAGES = ROOT / "docs/images"
SIZES = {"small": (1280, 720), "large": (1920, 1080), "phone": (390, 844)}
SCHEMES = ("dark", "light")
SHOWN = ("oversold", "rush", "fault")  # scenes in the documents; the others are for --every
PATIENCE_MS = 60_000
STOCK = 300
HOLD_MS = 20
MID_RUSH = 120  # sold when the shutter clicks
SOLD_UNDER = """([guard, least]) => document.querySelector("#runs .current button")?.textContent === guard
  && Number(document.querySelector("#figures [data-key=sold] dd").textContent) >= least"""


@dataclass(frozen=True)
class View:
    """The board in one size and colour scheme."""

    size: str
    scheme: str
    page: Page

    def shoot(self, path: Path) -> None:
        """Photograph it; on a phone the whole page, elsewhere what fits on the screen."""
        self.page.mouse.move(0, 0)
        picture = self.page.screenshot(full_page=self.size == "phone", animations="disabled")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(smaller(picture))


def smaller(picture: bytes) -> bytes:
    """The same to the eye, with a palette: it covers rare colours, and meets the frequent ones."""
    packed = io.BytesIO()
    colours = Image.open(io.BytesIO(picture)).convert("RGB")
    method = Image.Quantize.MAXCOVERAGE
    colours.quantize(256, method, kmeans=1, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


@contextmanager
def open_views(browser: Browser, url: str, every: bool) -> Iterator[list[View]]:
    """The board in all sizes, or in the one that README.md shows."""
    views = []
    for size in SIZES if every else ("small",):
        for scheme in SCHEMES:
            width, height = SIZES[size]
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
            )
            page.set_default_timeout(PATIENCE_MS)
            page.goto(url)
            expect(page.locator("#source")).to_have_attribute("data-state", "live", timeout=PATIENCE_MS)
            views.append(View(size, scheme, page))
    yield views
    for view in views:
        view.page.close()


def rush(page: Page, guard: str, hold_ms: int) -> None:
    """Send the buyers, as a visitor of the board would."""
    if page.locator("#controls").is_hidden():
        page.click("#toggle-controls")
    page.select_option("#rush-form [name=guards]", guard)
    page.fill("#rush-form [name=hold_ms]", str(hold_ms))
    page.click("#rush-form button:enabled")
    page.click("#toggle-controls")


def wait_end(page: Page, guard: str) -> None:
    """Until Locust is ready for the next rush, and the board has the whole of this one."""
    page.wait_for_function(SOLD_UNDER, arg=[guard, STOCK])
    page.wait_for_function("() => !document.querySelector('#rush-form button').disabled")


def fault(directory: Path, scenario: str, guard: str) -> Path:
    """The record of a fault that is played now."""
    words = [sys.executable, "-m", "loadtest", "faults", scenario, "--guard", guard]
    subprocess.run(words, cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    return directory / f"reports/latest/records/{scenario}-{guard}.json"


@dataclass(frozen=True)
class Show:
    """One course of everything that there is to see.

    Attributes:
        views: who look on.
        directory: for the pictures.
        every: also what only the makers of the page look at.
    """

    views: list[View]
    directory: Path
    every: bool

    def play(self, record: Path) -> None:
        """An oversold sale, an exact one, and a record."""
        first = self.views[0].page
        self._shoot("idle")
        rush(first, "none", 0)
        wait_end(first, "none")
        self._shoot("oversold")
        rush(first, "etcd", HOLD_MS)
        first.wait_for_function(SOLD_UNDER, arg=["etcd", MID_RUSH])
        self._shoot("rush")
        wait_end(first, "etcd")
        self._shoot("exact")
        for view in self.views:
            view.page.set_input_files("#file", record)
            view.page.wait_for_selector("#player:visible")
        self._shoot("fault")

    def _shoot(self, scene: str) -> None:
        for view in self.views if self.every or scene in SHOWN else []:
            size = f"-{view.size}" if self.every else ""
            view.shoot(self.directory / f"board-{scene}{size}-{view.scheme}.png")


def main() -> None:
    """Make the pictures, and say where they are."""
    every = sys.argv[1:2] == ["--every"]
    images = Path(sys.argv[2]) if every else IMAGES
    locust_port = free_port()
    with scratch_directory() as directory, sync_playwright() as playwright:
        env = {"FLASHSALE_LOCUST": f"http://127.0.0.1:{locust_port}", "FLASHSALE_LOCK_TIMEOUT": "60"}
        with Stack(directory, ports="free", board=True, env=env) as stack:
            rushing = {
                "LOCUST_HOST": ",".join(stack.urls),
                "FLASHSALE_REDIS_URL": stack.redis.url,
                "FLASHSALE_ETCD_ENDPOINTS": stack.etcd.endpoint,
            }
            record = fault(directory, "pause-holder", "etcd-unfenced")
            browser = playwright.chromium.launch(executable_path=find_chromium())
            with LocustPage(directory, locust_port, env=rushing), open_views(browser, stack.board.url, every) as views:
                Show(views, images, every).play(record)
            browser.close()


if __name__ == "__main__":
    main()
