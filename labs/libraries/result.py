"""What is kept of a run: a row for each library, a cell for each column, and how it came out each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from labs.libraries.cases.case import CellAnswer, Finding
from labs.libraries.trial import HistoryEvent
from loadtest.results.json_files import read_object, restore, write_text_file

VARIES = "varies"


@dataclass(frozen=True)
class CaseRun:
    """One time that a case was tried: its finding, and for all but a *yes* what happened."""

    finding: Finding
    events: list[HistoryEvent] = field(default_factory=list)


@dataclass
class Cell:
    """A column of a library: each time that it was tried, or why it was not, and on which day."""

    runs: list[CaseRun] = field(default_factory=list)
    failed: str = ""
    day: str = ""

    @property
    def observed(self) -> str:
        """The answer if it was the same each time, else `VARIES`; "" if it was not tried."""
        answers = {run.finding.answer for run in self.runs}
        if len(answers) > 1:
            return VARIES
        return answers.pop().value if answers else ""

    @property
    def shown(self) -> CaseRun | None:
        """The run that is shown: the first with the gravest answer."""
        return min(self.runs, key=lambda run: [*CellAnswer].index(run.finding.answer), default=None)


@dataclass
class LibraryRow:
    """A library, or one way to use it; `missing` says why it was not tried at all."""

    name: str
    version: str = ""
    server: str = ""
    missing: str = ""
    cells: dict[str, Cell] = field(default_factory=dict)

    @property
    def library(self) -> str:
        """The name without the way."""
        return self.name.partition(" (")[0]

    @property
    def way(self) -> str:
        return self.name.partition(" (")[2].rstrip(")")


@dataclass
class LibraryTable:
    """All rows, with the machine."""

    machine: dict[str, Any]
    rows: list[LibraryRow] = field(default_factory=list)

    def write(self, path: Path) -> None:
        write_text_file(path, msgspec.json.format(msgspec.json.encode(asdict(self)), indent=1).decode() + "\n")

    @classmethod
    def read(cls, path: Path) -> LibraryTable:
        """Raises KeptError."""
        return restore(cls, read_object(path), path)

    def merge(self, row: LibraryRow, order: Sequence[str]) -> None:
        """Take over a row, in an order of names; a cell that was tried anew replaces the one before."""
        known = {each.name: each for each in self.rows}
        row.cells = known.get(row.name, row).cells | row.cells
        self.rows = sorted((known | {row.name: row}).values(), key=lambda each: order.index(each.name))
