"""The record of one rush or fault: all that is needed to judge it again, in one JSON file.

Times (``*_ms``) are milliseconds since the record's start on the boot-time clock; what was not recorded is null.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from app.contract.clock import Start
from app.contract.orders import Order, Token
from app.contract.outcomes import Outcome, Promise
from app.contract.section_log import GuardSource, LoggedSection, SectionTail
from loadtest.language import Message
from loadtest.results.answer import Answer
from loadtest.results.comparison import GuardRun
from loadtest.results.history import SLACK_MS
from loadtest.results.json_files import KeptError, read_object, restore, write_text_file

FORMAT = "stock-flash-sale/record"
VERSION = 1
NO_GUARD = "no guard"  # of a sale without a purchase, recorded by the board


@dataclass(frozen=True)
class Point:
    """A point that a purchase passed in its critical section, and the line of the guard's file that it was in.

    Attributes:
        name: one of `app.contract.section_log.POINTS`.
    """

    name: str
    line: int | None
    at_ms: float


@dataclass(frozen=True)
class CriticalSection:
    """One critical section.

    Attributes:
        read_ms, commit_ms: when read and write were sent, None if they were not.
        left_ms: None while it lasts, and if the process died inside.
        outcome: None if nothing was decided.
        cause: "replayed", how the lock was lost, or the name of an error.
        stock: items left after the purchase; None if nothing was decided.
        line: where the guard's `buy` entered; None if it is not known, as in older records.
        stock_read: what the purchase read; None under a guard that reads and writes in one script.
    """

    order: str
    buyer: str
    instance: str
    pid: int
    thread: str
    guard: str
    token: Token | None
    entered_ms: float
    read_ms: float | None = None
    commit_ms: float | None = None
    left_ms: float | None = None
    outcome: str | None = None
    cause: str | None = None
    item: str = "1"
    stock: int | None = None
    line: int | None = None
    stock_read: int | None = None
    points: tuple[Point, ...] = ()

    @property
    def wrote(self) -> bool:
        """Whether it put an order into the ledger; a replay only found one."""
        return self.outcome == Outcome.SOLD and self.cause is None

    @property
    def answered_ms(self) -> float | None:
        """When it knew the stock: the answer to its read, or to a script that decided at once; None if it did not."""
        decided = self.read_ms is None and self.outcome in (Outcome.SOLD, Outcome.SOLD_OUT)
        return next((each.at_ms for each in self.points if each.name == ("wrote" if decided else "read")), None)

    @classmethod
    def of(cls, logged: LoggedSection, start: Start) -> CriticalSection:
        """The section in the log, with its times since `start`."""

        def since_start(at_ns: int | None) -> float | None:
            return None if at_ns is None else start.since_boot(at_ns)

        same = ("order", "buyer", "instance", "pid", "thread", "guard", "token", "outcome", "cause", "item", "line")
        return cls(
            **{name: getattr(logged, name) for name in same},
            entered_ms=start.since_boot(logged.entered),
            read_ms=since_start(logged.read_at),
            commit_ms=since_start(logged.commit_at),
            left_ms=since_start(logged.left),
            stock=logged.stock if isinstance(logged.stock, int) else None,
            stock_read=logged.stock_read,
            points=tuple(
                Point(name, line, start.since_boot(logged.entered + after * 1000))
                for name, line, after in logged.points
            ),
        )


class SectionReader:
    """Gathers the critical sections that the instances log to `directory` from `start` on."""

    def __init__(self, directory: Path | None, start: Start) -> None:
        self._directory, self._start = directory, start
        self._tail = SectionTail(directory, from_now=True)
        self._sections: dict[int, LoggedSection] = {}

    @classmethod
    def from_environment(cls, start: Start) -> SectionReader:
        """The reader of the directory that ``FLASHSALE_SECTION_LOG`` names, if it is set."""
        name = os.environ.get("FLASHSALE_SECTION_LOG")
        return cls(Path(name) if name else None, start)

    def poll(self) -> list[CriticalSection]:
        changed = self._tail.poll()
        self._sections |= {each.number: each for each in changed if each.entered >= self._start.boot_ns}
        return [CriticalSection.of(each, self._start) for each in self._sections.values()]

    def source(self, guard: str) -> GuardSource | None:
        """The guard's `buy`, if the instances kept it."""
        return GuardSource.kept(self._directory, guard)


@dataclass(frozen=True)
class Sample:
    """The sale at one moment: items left, orders, buyers behind the holder; None if a server was out of reach.

    Attributes:
        lease_s, granted_s: what is left of the holder's lease, and of how much; None if that was not seen.
        frozen, dead: names of the instances that stand still, and of those that do not run.
    """

    at_ms: float
    stock: int | None
    orders: int | None
    holder: str | None
    waiters: int | None
    lease_s: float | None = None
    granted_s: float | None = None
    frozen: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FaultEvent:
    """An action on the sale; text and values are those of its message."""

    at_ms: float
    text: str
    values: dict[str, Message | str | int | float] = field(default_factory=dict)

    @property
    def message(self) -> Message:
        return Message(self.text, self.values)


@dataclass(frozen=True)
class Expectation:
    """The expectation of a fault.

    Attributes:
        fault: the action, in one line.
        expected: a value of `labs.faults.scenario.Expected`.
        as_expected: None if there is no verdict.
        problems: why the run is not as expected, or has no verdict; empty if it is.
    """

    expected: str
    as_expected: bool | None
    problems: list[Message]
    fault: str = ""


@dataclass(frozen=True)
class _Judged:
    """What every record has of its verdict; that of a rush has more."""

    findings: dict[str, int]
    kind: str
    exact: bool
    orders: int
    stock_left: int
    lost_updates: int


@dataclass
class Record:
    """One rush or fault under one guard.

    Attributes:
        kind: "rush" or "fault".
        buyers, hold_ms: None in a record of the board.
        scenario: the fault's name.
        promise: the guard's, in the shop's words.
        started: ISO 8601, UTC.
        verdict: the run's row of comparison.json.
        sections: complete if the instances recorded them, else empty.
        source: the guard's `buy`, if the instances kept it.
        slack_ms: by how much the clocks of the buyers may differ.
    """

    kind: str
    guard: str
    promise: str
    stock: int
    buyers: int | None
    hold_ms: int | None
    started: str
    versions: dict[str, str]
    verdict: dict[str, Any]
    scenario: str | None = None
    expectation: Expectation | None = None
    answers: list[Answer] = field(default_factory=list)
    ledger: list[Order] = field(default_factory=list)
    sections: list[CriticalSection] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    events: list[FaultEvent] = field(default_factory=list)
    source: GuardSource | None = None
    slack_ms: float = SLACK_MS

    @classmethod
    def of_rush(cls, run: GuardRun, *, stock: int, hold_ms: int, started: str, versions: dict[str, str]) -> Record:
        """The record of `run`, without rows."""
        return cls(
            kind="rush",
            guard=run.guard,
            promise=run.promise,
            stock=stock,
            buyers=sum(run.outcomes.values()),
            hold_ms=hold_ms,
            started=started,
            versions=versions,
            verdict=asdict(run),
        )

    def take(
        self, start: Start, *, answers: Iterable[Answer], ledger: Iterable[Order], sections: Iterable[CriticalSection]
    ) -> None:
        """Add rows: answers and orders with times since the epoch, sections with times since the start."""
        on_clock = start.since_epoch
        self.answers = [
            replace(answer, sent_ms=on_clock(answer.sent_ms), answered_ms=on_clock(answer.answered_ms))
            for answer in answers
        ]
        self.ledger = [replace(order, at_ms=on_clock(order.at_ms)) for order in ledger]
        self.sections = sorted(sections, key=lambda section: section.entered_ms)

    @property
    def name(self) -> str:
        """The fault, or "rush"."""
        return self.scenario or "rush"

    @property
    def as_expected(self) -> bool | None:
        """Whether the fault came out as expected, or else, whether the guard kept its promise; None: no verdict."""
        if self.expectation:
            return self.expectation.as_expected
        kept = self.promise == Promise.NONE or self.verdict["exact"]
        as_expected: bool | None = self.verdict.get("kept_promise", kept)
        return as_expected

    def to_json(self) -> str:
        """A line for each row, so that two records can be compared as text."""
        members = {"format": FORMAT, "version": VERSION, **asdict(self)}
        text = ",\n".join(f"{json.dumps(name)}: {_lines(value)}" for name, value in members.items())
        return f"{{\n{text}\n}}\n"

    def write(self, path: Path) -> None:
        write_text_file(path, self.to_json())

    @classmethod
    def read(cls, path: Path) -> Record:
        """The record in a file; raises KeptError if it is none, is damaged, or has another version."""
        data = read_object(path)
        if (data.get("format"), data.get("version")) != (FORMAT, VERSION):
            raise KeptError(f"{path} is not a {FORMAT} of version {VERSION}")
        record = restore(cls, {**data, "guard": data.get("guard") or NO_GUARD}, path)
        restore(_Judged, record.verdict, path)
        return record


def _lines(value: Any) -> str:
    rows = value if isinstance(value, list) else []
    return "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]" if rows else json.dumps(value)
