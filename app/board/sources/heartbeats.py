"""Heartbeats of the instances (`app.server.heartbeat`): living processes, and the outcomes of their purchases."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.contract.clock import now_ns

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
    in_hand: int
    queued: int
    outcomes: dict[str, int]

    @property
    def process(self) -> Process:
        return self.instance, self.pid, self.began

    @property
    def unanswered(self) -> int:
        """Requests without an answer so far."""
        return self.in_hand + self.queued


@dataclass
class _Seen:
    before: WorkerStatus  # the last heartbeat before `HeartbeatReader.begin`
    kept: deque[WorkerStatus]
    has_file: bool = True
    replaced: bool = False  # by another process with its file; one that ends by itself removes the file


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
        self._seen: dict[Process, _Seen] = {}
        self.living: list[WorkerStatus] = []
        self.stale: list[WorkerStatus] = []

    def read(self) -> list[WorkerStatus]:
        """Look again, and return `living`."""
        found = {beat.process: beat for beat in self._files()}
        files = {process[:2] for process in found}
        for process, seen in self._seen.items():
            seen.has_file = process in found
            seen.replaced |= not seen.has_file and process[:2] in files
        for process, beat in found.items():
            # One that comes later has just begun.
            seen = self._seen.setdefault(process, _Seen(beat, deque([beat], maxlen=KEPT)))
            if seen.kept[-1].at != beat.at:
                seen.kept.append(beat)
        oldest = now_ns() - FRESH_NS
        self.living = [beat for beat in found.values() if beat.at > oldest]
        replaced = [seen.kept[-1] for seen in self._seen.values() if seen.replaced]
        self.stale = [beat for beat in found.values() if beat.at <= oldest] + replaced
        return self.living

    def _files(self) -> Iterator[WorkerStatus]:
        for path in [] if self._directory is None else sorted(self._directory.glob("*.heartbeat")):
            with suppress(OSError, ValueError, TypeError):  # just being removed, or just being made
                yield WorkerStatus(**json.loads(path.read_bytes()))

    def per_second(self) -> dict[str, float]:
        """Purchases a second by outcome, over the heartbeats that are kept; empty before a second one."""
        rates: defaultdict[str, float] = defaultdict(float)
        for last in self.living:
            first = self._seen[last.process].kept[0]
            for outcome, count in last.outcomes.items() if last.at > first.at else ():
                rates[outcome] += (count - first.outcomes.get(outcome, 0)) * 1e9 / (last.at - first.at)
        return {outcome: round(rate, 1) for outcome, rate in rates.items()}

    def begin(self, at_ns: int) -> None:
        """Count the answers since `at_ns`, which is at most a second ago."""
        self._seen = {process: seen for process, seen in self._seen.items() if seen.has_file}
        for seen in self._seen.values():
            seen.before = next((beat for beat in reversed(seen.kept) if beat.at <= at_ns), seen.kept[0])

    @property
    def outcomes(self) -> Counter[str]:
        """Purchases by outcome since `begin`, those of processes that have ended included."""
        total = Counter[str]()
        for seen in self._seen.values():
            total.update(seen.kept[-1].outcomes)
            total.subtract(seen.before.outcomes)
        return +total
