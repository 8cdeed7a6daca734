"""The section log of the instances (``FLASHSALE_SECTION_LOG``), read while they write it.

app/telemetry/section_log.py writes the lines.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from loadtest.results.answer import Token


@dataclass
class LoggedSection:
    """One critical section, as far as it is logged; times in nanoseconds of `loadtest.results.clock`.

    Attributes:
        item: the item bought; of a cart, its items, separated by commas.
        left: None while it lasts, and where the process died inside.
        read, commit: when read and write were sent, None if they were not.
        outcome: None where nothing was decided.
        cause: "replayed", how the lock was lost, or the name of an error.
        stock: items left, as the purchase saw it; of a cart, for each item.
    """

    order: str
    buyer: str
    guard: str
    token: Token | None
    instance: str
    pid: int
    thread: str
    entered: int
    item: str = "1"
    left: int | None = None
    read: int | None = None
    commit: int | None = None
    outcome: str | None = None
    cause: str | None = None
    stock: int | dict[str, int] | None = None


class SectionReader:
    """Follows all files of a directory; what they have when it is made is skipped.

    Attributes:
        sections: those read so far, of each process in the order of entering.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.sections: list[LoggedSection] = []
        self._read = {file: file.stat().st_size for file in self._files()}
        self._open: dict[tuple[Path, str], LoggedSection] = {}

    @classmethod
    def from_environment(cls) -> SectionReader:
        """The reader of the directory that ``FLASHSALE_SECTION_LOG`` names, if it is set."""
        name = os.environ.get("FLASHSALE_SECTION_LOG")
        return cls(Path(name) if name else None)

    def poll(self) -> list[LoggedSection]:
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
        if event == "enter":
            told = {each.name: line[each.name] for each in fields(LoggedSection) if each.name in line}
            self._open[file, line["order"]] = section = LoggedSection(entered=at, **told)
            self.sections.append(section)
        elif event == "leave" and (file, line["order"]) in self._open:
            section = self._open.pop((file, line["order"]))
            section.left, section.read, section.commit = at, line["read_at"], line["commit_at"]
            section.outcome, section.cause, section.stock = line["outcome"], line["cause"], line.get("stock")
