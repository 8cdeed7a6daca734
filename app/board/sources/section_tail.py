"""The section log of the instances (`app.telemetry.section_log`), read while it is written."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST_BYTES = 4 * 1024 * 1024  # of one file in one poll; the next poll reads on
MOST_OPEN = 10_000  # sections without an end: more than threads, so the oldest are those of dead processes
_COPIED = ("order", "buyer", "token", "instance", "pid", "thread")


@dataclass(slots=True)
class Section:
    """One critical section, or as much of it as there is yet; times in nanoseconds of `app.clock`.

    Attributes:
        number: counts all sections in the order in which they were read.
        left: None while it lasts, and for good if the process died inside.
    """

    number: int
    order: str
    buyer: str
    token: Any  # as app.sales.tokens writes it; None under a guard without one
    instance: str
    pid: int
    thread: str
    entered: int
    item: str = "1"
    left: int | None = None
    outcome: str | None = None
    cause: str | None = None


class SectionTail:
    """Follows all files of a directory, if there is one. Not thread-safe."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._read: dict[Path, int] = {}
        self._open: dict[tuple[Path, str], Section] = {}
        self._number = 0

    def poll(self) -> list[Section]:
        """Sections that have begun or ended since the last poll; one that did both is listed once."""
        changed: dict[int, Section] = {}
        for path in [] if self._directory is None else sorted(self._directory.glob("*.jsonl")):
            for line in self._lines(path):
                section = self._take(path, line)
                if section is not None:
                    changed[section.number] = section
        return list(changed.values())

    def _lines(self, path: Path) -> Iterator[dict[str, Any]]:
        """Whole lines that are new; none of a file that cannot be read."""
        try:
            with path.open("rb") as file:
                # The end of a long file has the newest sales.
                begin = self._read.get(path, max(0, path.stat().st_size - MOST_BYTES))
                file.seek(begin)
                whole = file.read(MOST_BYTES).rpartition(b"\n")[0]
        except OSError:
            return
        if whole:
            self._read[path] = begin + len(whole) + 1
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):  # half a line, where the reading began in its middle
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event

    def _take(self, path: Path, line: dict[str, Any]) -> Section | None:
        event = line.get("event")
        if event == "enter":
            self._number += 1
            copied = {name: line[name] for name in _COPIED}
            section = Section(self._number, entered=line["at"], item=line.get("item", "1"), **copied)
            self._open[path, section.order] = section
            if len(self._open) > MOST_OPEN:
                del self._open[next(iter(self._open))]
            return section
        over = self._open.pop((path, line.get("order", "")), None) if event == "leave" else None
        if over is not None:
            over.left, over.outcome, over.cause = line["at"], line["outcome"], line["cause"]
        return over
