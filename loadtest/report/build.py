"""The page of a kept result, drawn and written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from loadtest.report.pages import benchmark, comparison, records, versus
from loadtest.report.sources import BenchSource, ComparisonSource, RecordsSource, ReportError, Source, read
from loadtest.results.kept import write as write_file

PAGE = "index.html"
VERSUS = "versus.html"  # beside the page of the first of the two


def draw(directory: Path, screen: Console) -> None:
    """Write the page of a new report, and print its path."""
    with screen.status("drawing the report"):
        page = write([directory])
    screen.print(f"Report: {page}", highlight=False, soft_wrap=True)


def write(files: Sequence[Path], output: Path | None = None) -> Path:
    """Write the page of one file or directory, or of two, and return its path; raises ReportError."""
    drawn = page([read(file) for file in files])
    directory = files[0] if files[0].is_dir() else files[0].parent
    where = output or directory / (PAGE if len(files) == 1 else VERSUS)
    try:
        write_file(where, drawn)
    except OSError as error:
        raise ReportError(f"{where} cannot be written: {error.strerror}") from error
    return where


def page(sources: Sequence[Source]) -> str:
    """The page of one source, or of two; raises ReportError."""
    if len(sources) > 1:
        return versus.page(*sources)
    (source,) = sources
    if isinstance(source, ComparisonSource):
        return comparison.page(source)
    if isinstance(source, BenchSource):
        return benchmark.page(source)
    assert isinstance(source, RecordsSource)
    return records.page(source)
