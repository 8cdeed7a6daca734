"""The page of a kept result, drawn and written."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from loadtest.report.pages import benchmark, comparison, records
from loadtest.report.sources import BenchSource, ComparisonSource, RecordsSource, ReportError, Source, read
from loadtest.results.kept import write as write_file

PAGE = "index.html"


def draw(directory: Path, screen: Console) -> None:
    """Write the page of a new report, and print its path."""
    with screen.status("drawing the report"):
        page = write(directory)
    screen.print(f"Report: {page}", highlight=False, soft_wrap=True)


def write(kept: Path, output: Path | None = None) -> Path:
    """Write the page of a file or directory, and return its path; raises ReportError."""
    drawn = page(read(kept))
    where = output or (kept if kept.is_dir() else kept.parent) / PAGE
    try:
        write_file(where, drawn)
    except OSError as error:
        raise ReportError(f"{where} cannot be written: {error.strerror}") from error
    return where


def page(source: Source) -> str:
    """The page of a source."""
    if isinstance(source, ComparisonSource):
        return comparison.page(source)
    if isinstance(source, BenchSource):
        return benchmark.page(source)
    assert isinstance(source, RecordsSource)
    return records.page(source)
