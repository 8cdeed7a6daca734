"""The page of a benchmark: what the terminal shows, with charts, from disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from labs.bench.commands import bench
from labs.bench.tables import all_tables, part_tables
from labs.bench.tests.samples import benchmark
from tests.support.parsed import Page


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read: "),
        ("[]", "is not a stock-flash-sale/bench of version 1"),
        ('{"format": "stock-flash-sale/bench", "version": 1}', "is damaged: "),
    ],
)
def test_foreign_and_broken_files_are_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    """A file that is not a result, or damaged, is named with the reason; no page is written."""
    file = tmp_path / "bench.json"
    file.write_text(content)
    done = CliRunner().invoke(bench, ["--show", str(file)])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {file} {message}")
    assert done.output.count("\n") == 1
    assert list(tmp_path.iterdir()) == [file]
