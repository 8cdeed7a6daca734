"""Heartbeats of the instances (`app.server.heartbeat`): living processes, and the outcomes of their purchases."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from pathlib import Path

from app.clock import now_ns

FRESH_NS = 1_500_000_000
KEPT = 16  # heartbeats of each process; some two seconds

Process = tuple[str, int, int]  # instance, process id, which two containers may share, and when it began


@dataclass(frozen=True)
class WorkerStatus:
    """One heartbeat of a worker process; `outcomes` counts its purchases since it began."""

    at: int
    instance: str
    pid: int
    began: int
    threads: int
    busy: int
    queued: int
    outcomes: dict[str, int]

    @property
    def process(self) -> Process:
        return self.instance, self.pid, self.began

    @property
    def in_hand(self) -> int:
        """Requests without an answer so far."""
        return self.busy + self.queued


class HeartbeatReader:
    """Reads the heartbeats of all processes, and keeps the last ones. Not thread-safe.

    Args:
        directory: where the instances write; no process is seen if None.

    Attributes:
        living: last heartbeats that are new.
        stale: last heartbeats that are old: their processes are frozen, or were killed and perhaps replaced.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._kept: dict[Process, deque[WorkerStatus]] = {}
        self._before: dict[Process, WorkerStatus] = {}  # of each process, the last heartbeat before `begin`
        self._last: dict[Process, WorkerStatus] = {}
        self._replaced: list[WorkerStatus] = []  # a process that ends by itself removes its file
        self.living: list[WorkerStatus] = []
        self.stale: list[WorkerStatus] = []

    def read(self) -> list[WorkerStatus]:
        """Look again, and return `living`."""
        found = self._files()
        files = {beat.process[:2]: beat.process for beat in found}
        self._replaced += [self._last[each] for each in self._kept if files.get(each[:2], each) != each]
        self._kept = {beat.process: self._kept.get(beat.process) or deque(maxlen=KEPT) for beat in found}
        for beat in found:
            self._before.setdefault(beat.process, beat)  # one that comes later has just begun
            self._last[beat.process] = beat
            kept = self._kept[beat.process]
            if not kept or kept[-1].at != beat.at:
                kept.append(beat)
        oldest = now_ns() - FRESH_NS
        self.living = [beat for beat in found if beat.at > oldest]
        self.stale = [beat for beat in found if beat.at <= oldest] + self._replaced
        return self.living

    def _files(self) -> list[WorkerStatus]:
        found = []
        for path in [] if self._directory is None else sorted(self._directory.glob("*.heartbeat")):
            try:
                found.append(WorkerStatus(**json.loads(path.read_bytes())))
            except (OSError, ValueError, TypeError):  # just being removed, or just being made
                continue
        return found

    def per_second(self) -> dict[str, float]:
        """Purchases a second by outcome, over the heartbeats that are kept; empty before a second one."""
        rates: defaultdict[str, float] = defaultdict(float)
        for last in self.living:
            first = self._kept[last.process][0]
            for outcome, count in last.outcomes.items() if last.at > first.at else ():
                rates[outcome] += (count - first.outcomes.get(outcome, 0)) * 1e9 / (last.at - first.at)
        return {outcome: round(rate, 1) for outcome, rate in rates.items()}

    def begin(self, at_ns: int) -> None:
        """Count the answers since `at_ns`, which is at most a second ago."""
        self._replaced.clear()
        self._last = {process: kept[-1] for process, kept in self._kept.items()}
        self._before = {
            process: next((beat for beat in reversed(kept) if beat.at <= at_ns), kept[0])
            for process, kept in self._kept.items()
        }

    @property
    def outcomes(self) -> Counter[str]:
        """Purchases by outcome since `begin`, those of processes that have ended included."""
        total = Counter[str]()
        for process, last in self._last.items():
            total.update(last.outcomes)
            total.subtract(self._before[process].outcomes)
        return +total
