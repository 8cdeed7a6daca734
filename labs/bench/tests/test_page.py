"""The page of a benchmark: what the terminal shows, with charts, from disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from labs.bench.commands import bench
from labs.bench.page import render_benchmark
from labs.bench.tables import all_tables, part_tables
from labs.bench.tests.samples import benchmark
from tests.support.parsed import Page

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_a_result_is_shown_again(tmp_path: Path) -> None:
    """Nothing is measured; each part has its chart and its table, cell by cell, and the ceilings have theirs."""
    made, file = benchmark(), tmp_path / "bench.json"
    made.write(file)
    shown = CliRunner().invoke(bench, ["--show", str(file)])
    assert shown.output.splitlines()[-1] == f"Report: {tmp_path / 'index.html'}"
    page = Page.read(tmp_path / "index.html")
    for table, texts in zip(part_tables(made), page.charts, strict=True):
        assert {row[0] for row in table.rows} <= {text.split(",")[0] for text in texts}
    for table in all_tables(made):
        assert all(list(row) in page.rows for row in table.rows)
        assert f"{table.name}: " in shown.output


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(180)
def test_it_can_be_read_on_every_screen(chromium: Browser, tmp_path: Path) -> None:
    """In dark and light, on a projector and a phone: no text too small or too faint, nothing beside the window."""
    from tests.browser.test_report import assert_readable

    page = tmp_path / "index.html"
    page.write_text(render_benchmark(benchmark()), encoding="utf-8")
    assert_readable(chromium, page)
