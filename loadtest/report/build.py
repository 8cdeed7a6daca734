"""The page of a kept result, drawn and written."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from loadtest.language import ENGLISH, text_in
from loadtest.report.pages import comparison_page, records_page
from loadtest.results.comparison import Comparison
from loadtest.results.folders import COMPARISON, RECORDS
from loadtest.results.json_files import KeptError, read_object, write_text_file
from loadtest.results.record import FORMAT as RECORD
from loadtest.results.record import Record

PAGE = "index.html"


def make_report(directory: Path, screen: Console, language: str = ENGLISH) -> None:
    """Write the page of a new report, and print its path."""
    with screen.status(text_in(language, "report.drawing")):
        page = write_report_page(directory, language=language)
    screen.print(text_in(language, "report.path", page=page), highlight=False, soft_wrap=True)


def write_report_page(kept: Path, output: Path | None = None, language: str = ENGLISH) -> Path:
    """Write the page of a file or of a report's directory; return its path; raises KeptError."""
    records, directory = _read(kept), kept if kept.is_dir() else kept.parent
    if isinstance(records, Comparison):
        html = comparison_page(records, _records(directory), language)
    else:
        html = records_page(records, language)
    page = output or directory / PAGE
    write_text_file(page, html)
    return page


def _read(kept: Path) -> Comparison | list[Record]:
    if not kept.is_dir():
        return _read_file(kept)
    if (kept / COMPARISON).exists():
        return _read_file(kept / COMPARISON)
    records = _records(kept)
    if not records:
        raise KeptError(f"{kept} has neither {COMPARISON} nor {RECORDS}/")
    return sorted(records, key=lambda record: record.started)


def _read_file(file: Path) -> Comparison | list[Record]:
    data = read_object(file)
    if data.get("format") == RECORD:
        return [Record.read(file)]
    if "runs" in data:
        return Comparison.read(file)
    raise KeptError(f"{file} is not one of these: the JSON file of a comparison or of a record")


def _records(directory: Path) -> list[Record]:
    return [Record.read(file) for file in sorted((directory / RECORDS).glob("*.json"))]
