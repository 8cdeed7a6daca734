"""The page of a kept result, drawn and written."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from loadtest.bench.result import FORMAT as BENCH
from loadtest.bench.result import BenchResult
from loadtest.report.pages import benchmark, comparison, records
from loadtest.results.comparison import Comparison
from loadtest.results.folders import BENCHMARK, COMPARISON, RECORDS
from loadtest.results.kept import KeptError, read_object
from loadtest.results.kept import write as write_file
from loadtest.results.record import FORMAT as RECORD
from loadtest.results.record import Record

PAGE = "index.html"


def draw(directory: Path, screen: Console) -> None:
    """Write the page of a new report, and print its path."""
    with screen.status("drawing the report"):
        page = write(directory)
    screen.print(f"Report: {page}", highlight=False, soft_wrap=True)


def write(kept: Path, output: Path | None = None) -> Path:
    """Write the page of a file or of the directory of a report, and return its path; raises KeptError."""
    drawn = _page_of_directory(kept) if kept.is_dir() else _page_of_file(kept)
    page = output or (kept if kept.is_dir() else kept.parent) / PAGE
    write_file(page, drawn)
    return page


def _page_of_directory(directory: Path) -> str:
    for name in (COMPARISON, BENCHMARK):
        if (directory / name).exists():
            return _page_of_file(directory / name)
    found = _records(directory)
    if not found:
        raise KeptError(f"{directory} has neither {COMPARISON} nor {BENCHMARK} nor {RECORDS}/")
    return records.page(sorted(found, key=lambda record: record.started))


def _page_of_file(file: Path) -> str:
    data = read_object(file)
    if data.get("format") == RECORD:
        return records.page([Record.read(file)])
    if data.get("format") == BENCH:
        return benchmark.page(BenchResult.read(file))
    if "runs" in data:
        return comparison.page(Comparison.read(file), _records(file.parent))
    raise KeptError(f"{file} is not one of these: the JSON file of a comparison, of a benchmark, or of a record")


def _records(directory: Path) -> list[Record]:
    return [Record.read(file) for file in sorted((directory / RECORDS).glob("*.json"))]
