"""The section log: the critical sections of all instances, from which a sale can be judged afterwards.

If ``FLASHSALE_SECTION_LOG`` names a directory, every process appends to INSTANCE-PID.jsonl in it: `Enter` when a
critical section begins, and `Leave` when it ends, before its lock is released. A section without its second line is
open: its process died or is frozen. The file grows by blocks of zeros; the log ends at the first zero.

For slow motion, `Leave` has the `POINTS` that the section passed, each with a line number of the guard's file. A
`GuardSource` beside the log has the text of these lines.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

MOST_OPEN = 10_000  # sections without an end: more than threads, so the oldest are those of dead processes
POINTS = ("read", "think", "write", "wrote", "left")  # read: answered; write: about to be sent; wrote: answered
_BLOCK = 64 * 1024  # bytes

Point = tuple[str, int | None, int]  # one of `POINTS`, the line it was in, microseconds since the section began


class Enter(msgspec.Struct, tag_field="event", tag="enter"):
    """A critical section begins.

    Attributes:
        at: in nanoseconds of `app.contract.clock`, as all times here.
        line: line of the guard's file where `buy` entered; `None` if unknown.
    """

    at: int
    order: str
    item: str
    buyer: str
    guard: str
    token: Any
    instance: str
    pid: int
    thread: str
    line: int | None


class Leave(msgspec.Struct, tag_field="event", tag="leave"):
    """It ends, before its lock is released.

    Attributes:
        read_at, commit_at: when read and write were sent; `None` if they were not.
        outcome: decided inside; `None` if the purchase retries.
        cause: "replayed", how the lock was lost, or the name of the error; `None` for a plain sale.
        stock: items left after the purchase; `stock_read` before it.
    """

    at: int
    order: str
    read_at: int | None
    commit_at: int | None
    outcome: str | None
    cause: str | None
    stock: Any
    stock_read: int | None
    points: list[Point]


class Gap(msgspec.Struct, tag_field="event", tag="gap"):
    """`lines` lines are missing here, for example because the disk was full."""

    lines: int


class Full(msgspec.Struct, tag_field="event", tag="full"):
    """The file has reached its largest size, and the process logs no more."""


Event = Enter | Leave | Gap | Full
_decode = msgspec.json.Decoder(Event).decode


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
        """The source that `keep` wrote; `None` if there is none."""
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
    """One critical section, perhaps still open; see `Enter` and `Leave`.

    Attributes:
        number: counts all sections in the order in which they were read.
        left: `None` while it lasts, and for good if the process died inside.
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
    stock: int | None = None
    line: int | None = None
    stock_read: int | None = None
    points: list[Point] = field(default_factory=list)

    @classmethod
    def of(cls, number: int, enter: Enter) -> LoggedSection:
        members = msgspec.structs.asdict(enter)
        return cls(number, members.pop("at"), **members)

    def end(self, leave: Leave) -> None:
        members = msgspec.structs.asdict(leave)
        self.left = members.pop("at")
        for name, value in members.items():
            setattr(self, name, value)


class SectionTail:
    """Follows all files of a directory, if there is one, while they are written. Not thread-safe.

    Args:
        most_bytes: read at most so many of a file per poll; the next poll goes on. The first poll begins so many bytes
            before the file's end.
        from_now: skip everything that the files contain now.
    """

    def __init__(self, directory: Path | None, *, most_bytes: int | None = None, from_now: bool = False) -> None:
        self._directory = directory
        self._most = most_bytes
        self._read: dict[Path, int] = {}
        for path in self._files() if from_now else ():
            with path.open("rb") as file:
                self._read[path] = end_of(file)
        self._open: dict[tuple[Path, str], LoggedSection] = {}
        self._number = 0

    def poll(self) -> list[LoggedSection]:
        """Sections that have begun or ended since the last poll; one that did both is listed once."""
        changed: dict[int, LoggedSection] = {}
        for path in self._files():
            for event in self._events(path):
                section = self._take(path, event)
                if section is not None:
                    changed[section.number] = section
        return list(changed.values())

    def _files(self) -> list[Path]:
        return [] if self._directory is None else sorted(self._directory.glob("*.jsonl"))

    def _events(self, path: Path) -> Iterator[Event]:
        """The events of new, complete lines; none if the file cannot be read."""
        try:
            with path.open("rb") as file:
                if path not in self._read:
                    self._read[path] = max(0, end_of(file) - self._most) if self._most else 0
                whole = _text_from(file, self._read[path], self._most).rpartition(b"\n")[0]
        except OSError:
            return
        if whole:
            self._read[path] += len(whole) + 1
        for line in whole.splitlines():
            with suppress(msgspec.DecodeError):  # half a line, where the reading began in its middle
                yield _decode(line)

    def _take(self, path: Path, event: Event) -> LoggedSection | None:
        if isinstance(event, Enter):
            self._number += 1
            section = LoggedSection.of(self._number, event)
            self._open[path, section.order] = section
            if len(self._open) > MOST_OPEN:
                del self._open[next(iter(self._open))]
            return section
        if isinstance(event, Leave) and (left := self._open.pop((path, event.order), None)):
            left.end(event)
            return left
        return None


def end_of(file: BinaryIO) -> int:
    """Where the text of a section log ends: at its first zero, or with the file."""
    file.seek(0)
    return sum(map(len, _blocks(file)))


def _text_from(file: BinaryIO, begin: int, most: int | None) -> bytes:
    """The text from `begin` on, to its end or a little over `most` bytes."""
    file.seek(begin)
    blocks, size = [], 0
    for block in _blocks(file):
        blocks.append(block)
        size += len(block)
        if most and size >= most:
            break
    return b"".join(blocks)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """The text from here on, without the zeros behind it."""
    while block := file.read(_BLOCK):
        text, zero, _ = block.partition(b"\0")
        yield text
        if zero:
            return
