"""The section log of the instances (``FLASHSALE_SECTION_LOG``), read while they write it.

app/telemetry/section_log.py writes the lines.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.contract.clock import Start
from app.contract.section_log import GuardSource
from loadtest.results.record import CriticalSection, Point


class SectionReader:
    """Follows all files of a directory; what they have when it is made is skipped.

    Args:
        start: of the record that is made; sections that were entered before it belong to another one.

    Attributes:
        sections: those read so far, of each process in the order of entering.
    """

    def __init__(self, directory: Path | None, start: Start) -> None:
        self._directory = directory
        self._start = start
        self.sections: list[CriticalSection] = []
        self._read = {file: file.stat().st_size for file in self._files()}
        self._open: dict[tuple[Path, str], int] = {}  # where they stand in `sections`

    @classmethod
    def from_environment(cls, start: Start) -> SectionReader:
        """The reader of the directory that ``FLASHSALE_SECTION_LOG`` names, if it is set."""
        name = os.environ.get("FLASHSALE_SECTION_LOG")
        return cls(Path(name) if name else None, start)

    def poll(self) -> list[CriticalSection]:
        """`sections`, with what was written since the last call."""
        for file in self._files():
            with file.open("rb") as lines:
                lines.seek(self._read.get(file, 0))
                whole = lines.read().rpartition(b"\n")[0]
            if whole:
                self._read[file] = self._read.get(file, 0) + len(whole) + 1
                for line in whole.splitlines():
                    self._take(file, json.loads(line))
        return self.sections

    def _files(self) -> list[Path]:
        return [] if self._directory is None else sorted(self._directory.glob("*.jsonl"))

    def _take(self, file: Path, line: dict[str, Any]) -> None:
        event, at = line.pop("event"), line.pop("at", 0)
        if event == "enter" and at >= self._start.boot_ns:
            self._open[file, line["order"]] = len(self.sections)
            self.sections.append(CriticalSection(**line, entered_ms=self._start.since_boot(at)))
        elif event == "leave" and (file, line["order"]) in self._open:
            place = self._open.pop((file, line["order"]))
            self.sections[place] = replace(
                self.sections[place],
                left_ms=self._start.since_boot(at),
                read_ms=self._moment(line["read_at"]),
                commit_ms=self._moment(line["commit_at"]),
                outcome=line["outcome"],
                cause=line["cause"],
                stock=line["stock"] if isinstance(line["stock"], int) else None,
                stock_read=line.get("stock_read"),
                points=self._points(self.sections[place].entered_ms, line.get("points") or []),
            )

    def source(self, guard: str) -> GuardSource | None:
        """The guard's `buy`, if the instances kept it."""
        return GuardSource.kept(self._directory, guard)

    @staticmethod
    def _points(entered_ms: float, points: list[list[Any]]) -> list[Point]:
        return [Point(name, line, round(entered_ms + after / 1000, 3)) for name, line, after in points]

    def _moment(self, at_ns: int | None) -> float | None:
        return None if at_ns is None else self._start.since_boot(at_ns)
