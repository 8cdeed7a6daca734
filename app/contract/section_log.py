"""The section log: the critical sections of all instances, by which a sale can be judged afterwards.

If ``FLASHSALE_SECTION_LOG`` names a directory, every process appends to INSTANCE-PID.jsonl in it: a line when a
critical section begins, and a line when it ends, before its lock is released::

    {"at", "event": "enter", "order", "item", "buyer", "guard", "token", "instance", "pid", "thread", "line"}
    {"at", "event": "leave", "order", "read_at", "commit_at", "outcome", "cause", "stock", "stock_read", "points"}

All times are those of `app.contract.clock`. `read_at` and `commit_at` are when read and write were sent, null if they
were not. `outcome` was decided inside, null if the purchase tries again, and `stock` was left then. `cause` is
"replayed", how the lock was lost, or the name of the error; null for a plain sale. A section without its second line is
open: its process died or is frozen.

For slow motion, `line` is the line of the file in which the guard's `buy` entered, `stock_read` what it read, and
`points` has ``[NAME, LINE, MICROSECONDS]`` since it entered for each of `POINTS` that it passed. The lines themselves
are in `GuardSource`, which lies beside the log.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MOST_OPEN = 10_000  # sections without an end: more than threads, so the oldest are those of dead processes
_ENTERED = ("order", "buyer", "guard", "token", "instance", "pid", "thread")
_LEFT = ("read_at", "commit_at", "outcome", "cause", "stock", "stock_read")
POINTS = ("read", "think", "write", "wrote", "left")  # read: answered; write: about to be sent; wrote: answered


@dataclass(frozen=True)
class GuardSource:
    """A guard's `buy` as it stands in its file: the path from the repository, its first line's number, its text."""

    file: str
    first_line: int
    text: str

    def keep(self, directory: Path, guard: str) -> None:
        """Write it beside the section log; raises OSError."""
        path = _source_path(directory, guard)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(asdict(self)), encoding="utf-8")
        unfinished.replace(path)  # several processes write it

    @classmethod
    def kept(cls, directory: Path | None, guard: str) -> GuardSource | None:
        """What `keep` has written; None where there is none."""
        if directory is None:
            return None
        with suppress(OSError, ValueError, TypeError):
            return cls(**json.loads(_source_path(directory, guard).read_text(encoding="utf-8")))
        return None


def _source_path(directory: Path, guard: str) -> Path:
    name = re.sub(r"[^\w.-]", "-", guard)
    return directory / f"{name}.source"


@dataclass(slots=True)
class LoggedSection:
    """One critical section, or as much of it as there is yet; times in nanoseconds of `app.contract.clock`.

    Attributes:
        number: counts all sections in the order in which they were read.
        left: None while it lasts, and for good if the process died inside.
    """

    number: int
    entered: int
    order: str
    buyer: str
    guard: str
    token: Any
    instance: str
    pid: int
    thread: str
    item: str = "1"
    left: int | None = None
    read_at: int | None = None
    commit_at: int | None = None
    outcome: str | None = None
    cause: str | None = None
    stock: Any = None  # of a cart, what is left of each item
    line: int | None = None
    stock_read: int | None = None
    points: list[list[Any]] = field(default_factory=list)


class SectionTail:
    """Follows all files of a directory, if there is one, while they are written. Not thread-safe.

    Args:
        most_bytes: of one file in one poll; the next poll reads on. What a file has beyond it at first is skipped.
        from_now: skip all that the files have now.
    """

    def __init__(self, directory: Path | None, *, most_bytes: int | None = None, from_now: bool = False) -> None:
        self._directory = directory
        self._most = most_bytes
        self._read = {path: path.stat().st_size for path in self._files()} if from_now else {}
        self._open: dict[tuple[Path, str], LoggedSection] = {}
        self._number = 0

    def poll(self) -> list[LoggedSection]:
        """Sections that have begun or ended since the last poll; one that did both is listed once."""
        changed: dict[int, LoggedSection] = {}
        for path in self._files():
            for line in self._lines(path):
                section = self._take(path, line)
                if section is not None:
                    changed[section.number] = section
        return list(changed.values())

    def _files(self) -> list[Path]:
        return [] if self._directory is None else sorted(self._directory.glob("*.jsonl"))

    def _lines(self, path: Path) -> Iterator[dict[str, Any]]:
        """Whole lines that are new; none of a file that cannot be read."""
        try:
            with path.open("rb") as file:
                begin = self._read.get(path, max(0, path.stat().st_size - self._most) if self._most else 0)
                file.seek(begin)
                whole = file.read(self._most or -1).rpartition(b"\n")[0]
        except OSError:
            return
        if whole:
            self._read[path] = begin + len(whole) + 1
        for line in whole.splitlines():
            with suppress(ValueError):  # half a line, where the reading began in its middle
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event

    def _take(self, path: Path, line: dict[str, Any]) -> LoggedSection | None:
        event = line.get("event")
        if event == "enter":
            self._number += 1
            copied = {name: line[name] for name in _ENTERED}
            item, at_line = line.get("item", "1"), line.get("line")
            section = LoggedSection(self._number, line["at"], item=item, line=at_line, **copied)
            self._open[path, section.order] = section
            if len(self._open) > MOST_OPEN:
                del self._open[next(iter(self._open))]
            return section
        over = self._open.pop((path, line.get("order", "")), None) if event == "leave" else None
        if over is not None:
            over.left = line["at"]
            for name in _LEFT:
                setattr(over, name, line.get(name))
            over.points = line.get("points") or []
        return over
