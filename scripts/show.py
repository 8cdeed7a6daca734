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
LARGEST = 200_000  # bytes of a picture in the repository
PATIENCE_MS = 60_000
HOLD_MS = 20
MID_RUSH = 120  # sold when the shutter clicks


@dataclass(frozen=True)
class View:
    """The board in one size and colour scheme."""

    size: str
    scheme: str
    page: Page

    def shoot(self, scene: str, directory: Path) -> None:
        """Photograph the scene; on a phone the whole page, elsewhere what fits on the screen."""
        path = directory / f"board-{scene}-{self.size}-{self.scheme}.png"
        self.page.mouse.move(0, 0)
        picture = self.page.screenshot(full_page=self.size == "phone", animations="disabled")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(smaller(picture))


def smaller(picture: bytes) -> bytes:
    """The same, packed as well as PNG can."""
    packed = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").save(packed, "PNG", optimize=True)
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
    page.wait_for_function("guard => document.querySelector('.runs .current th')?.textContent === guard", arg=guard)
    page.wait_for_function("() => !document.querySelector('#rush-form button').disabled")


def fault(directory: Path, scenario: str, guard: str) -> Path:
    """The record of a fault that is played now."""
    words = [sys.executable, "-m", "loadtest", "faults", scenario, "--guard", guard]
    subprocess.run(words, cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    (record,) = directory.glob(f"reports/*/records/{scenario}-{guard}.json")
    return record


def shoot_all(views: list[View], scene: str, directory: Path) -> None:
    """Photograph the scene as every viewer sees it."""
    for view in views:
        view.shoot(scene, directory)


def play(views: list[View], record: Path, directory: Path) -> None:
    """The course of one sale after the other, and what is photographed of each."""
    first = views[0].page
    shoot_all(views, "idle", directory)
    rush(first, "none", 0)
    wait_end(first, "none")
    shoot_all(views, "oversold", directory)
    rush(first, "etcd", HOLD_MS)
    sold = "least => Number(document.querySelector('#figures [data-key=sold] dd')?.textContent) >= least"
    first.wait_for_function("() => document.querySelector('.runs .current th')?.textContent === 'etcd'")
    first.wait_for_function(sold, arg=MID_RUSH)
    shoot_all(views, "rush", directory)
    wait_end(first, "etcd")
    shoot_all(views, "exact", directory)
    for view in views:
        view.page.set_input_files("#file", record)
        view.page.wait_for_selector("#player:visible")
    shoot_all(views, "fault", directory)


def main() -> None:
    """Make the pictures, and say where they are."""
    every = sys.argv[1:2] == ["--every"]
    images = Path(sys.argv[2]) if every else IMAGES
    locust_port = free_port()
    with scratch_directory() as directory, sync_playwright() as playwright:
        env = {"FLASHSALE_LOCUST": f"http://127.0.0.1:{locust_port}"}
        with Stack(directory, ports="free", board=True, env=env) as stack:
            rushing = {
                "LOCUST_HOST": ",".join(stack.urls),
                "FLASHSALE_REDIS_URL": stack.redis.url,
                "FLASHSALE_ETCD_ENDPOINTS": stack.etcd.endpoint,
            }
            record = fault(directory, "pause-holder", "etcd-unfenced")
            browser = playwright.chromium.launch(executable_path=find_chromium())
            with LocustPage(directory, locust_port, env=rushing), open_views(browser, stack.board.url, every) as views:
                play(views, record, images)
            browser.close()


if __name__ == "__main__":
    main()
