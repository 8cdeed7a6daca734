"""Locust's page: the tab with the verdicts, after a rush under every guard, started from its form."""

from __future__ import annotations

from playwright.sync_api import Page

from scripts.screenshots.camera import PATIENCE_MS, Camera

RUSHES_MS = 180_000  # all of them, also on a busy machine


def photograph(camera: Camera, url: str) -> None:
    """Start the rush from the page at `url`, wait for its end."""
    page = camera.browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    rush(page)
    page.close()
    with camera.views(url) as views:
        for view in views:
            view.page.get_by_role("row", name="redis-lua").wait_for()
        camera.shoot(views, "locust-verdict")


def rush(page: Page) -> None:
    """Fill in the form, press Start, and wait until the page's status says that it is over."""
    page.get_by_role("button", name="Custom parameters").click()
    guards = page.get_by_label("Guards")
    guards.select_option(guards.get_by_role("option").all_inner_texts())
    page.get_by_role("button", name="Start").last.click()
    page.get_by_text("stopped", exact=True).wait_for(timeout=RUSHES_MS)
