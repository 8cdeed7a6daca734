"""What a report shows: a comparison with its records, records alone, or a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtest.bench.result import FORMAT as BENCH
from loadtest.bench.result import BenchResult
from loadtest.results.comparison import Comparison
from loadtest.results.folders import BENCHMARK, COMPARISON, RECORDS
from loadtest.results.kept import KeptError, read_object
from loadtest.results.record import FORMAT as RECORD
from loadtest.results.record import Record


class ReportError(KeptError):
    """No report can be made of a file; the message is one line."""


@dataclass(frozen=True)
class Source:
    """A kept result and its path; `about` has its time and its versions."""

    path: Path
    about: Comparison | Record | BenchResult

    @property
    def machine(self) -> dict[str, Any]:
        """The machine it was measured on; a record does not say."""
        return {} if isinstance(self.about, Record) else self.about.machine


@dataclass(frozen=True)
class ComparisonSource(Source):
    """A comparison, and the records of its runs by guard."""

    about: Comparison
    records: dict[str, Record]

    @property
    def recorded(self) -> dict[str, Record]:
        """The records in the order of the runs."""
        return {run.guard: self.records[run.guard] for run in self.about.runs if run.guard in self.records}


@dataclass(frozen=True)
class RecordsSource(Source):
    """At least one record, in the order of time; `about` is the first."""

    about: Record
    records: list[Record]


@dataclass(frozen=True)
class BenchSource(Source):
    """A benchmark."""

    about: BenchResult


def read(path: Path) -> Source:
    """The source in a file, or in the directory of a report; raises ReportError."""
    if not path.is_dir():
        return _file(path)
    for name in (COMPARISON, BENCHMARK):
        if (path / name).exists():
            return _file(path / name)
    records = [Record.read(each) for each in sorted((path / RECORDS).glob("*.json"))]
    if not records:
        raise ReportError(f"{path} has neither {COMPARISON} nor {BENCHMARK} nor {RECORDS}/")
    records.sort(key=lambda record: record.started)
    return RecordsSource(path, records[0], records)


def _file(path: Path) -> Source:
    data = read_object(path)
    if data.get("format") == RECORD:
        record = Record.read(path)
        return RecordsSource(path, record, [record])
    if data.get("format") == BENCH:
        return BenchSource(path, BenchResult.read(path))
    if "runs" in data:
        kept = map(Record.read, sorted((path.parent / RECORDS).glob("*.json")))
        return ComparisonSource(path, Comparison.read(path), {record.guard: record for record in kept})
    raise ReportError(f"{path} is not one of these: the JSON file of a comparison, of a benchmark, or of a record")
