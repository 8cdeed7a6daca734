"""Take the pictures of real runs for README.md and docs: python -m scripts.screenshots (make show)."""

from __future__ import annotations

from playwright.sync_api import sync_playwright

from loadtest.stack.apps import LocustPage
from loadtest.stack.process import scratch_directory
from loadtest.stack.stack import Stack
from scripts.chromium import find_chromium
from scripts.screenshots import board, film, locust
from scripts.screenshots.camera import Camera
from scripts.screenshots.runs import ROOT, comparison, fault, slow_records

IMAGES = ROOT / "docs/images"


def show() -> None:
    """Photograph board, Locust's page and report in dark and light, and the board in Chinese, too."""
    with (
        scratch_directory() as directory,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find_chromium()) as browser,
        Stack(directory, ports="free", board=True, env={"FLASHSALE_LOCK_TIMEOUT": "60"}) as stack,
    ):
        assert stack.board is not None
        camera = Camera(browser, IMAGES)
        rushing = {"LOCUST_HOST": ",".join(stack.urls), **stack.client_environment}
        record = fault(directory, "pause-holder", "etcd-unfenced")
        with LocustPage(directory, stack.locust_port, env=rushing) as page:
            board.photograph(camera, stack.board.url, page.url, record)
        film.film_slow_motion(camera, stack.board.url, *slow_records(directory, stack))
        with LocustPage(directory, stack.locust_port, env=rushing) as page:
            locust.photograph(camera, page.url)
        with camera.views(comparison(directory, stack).as_uri()) as views:
            camera.shoot(views, "report-guards")


if __name__ == "__main__":
    show()
