"""The page of a benchmark in a browser, judged as the other reports are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from labs.bench.page import render_benchmark
from labs.bench.tests.samples import benchmark

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(180)
def test_it_can_be_read_on_every_screen(chromium: Browser, tmp_path: Path) -> None:
    """In dark and light, on a projector and a phone: no text too small or too faint, nothing beside the window."""
    from tests.browser.test_report import assert_readable

    page = tmp_path / "index.html"
    page.write_text(render_benchmark(benchmark()), encoding="utf-8")
    assert_readable(chromium, page)
