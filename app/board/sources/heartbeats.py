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
class _History:
    before: WorkerStatus  # the last heartbeat before `HeartbeatReader.begin`
    kept: deque[WorkerStatus]
    has_file: bool = True
    replaced: bool = False  # by another process with its file; one that ends by itself removes the file


class HeartbeatReader:
    """Reads the heartbeats of all processes, and keeps the last ones. Not thread-safe.

    Args:
        directory: where the instances write; no process is seen if `None`.

    Attributes:
        living: last heartbeats that are new.
        stale: last heartbeats that are old: their processes are frozen, or were killed and perhaps replaced.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._histories: dict[Process, _History] = {}
        self.living: list[WorkerStatus] = []
        self.stale: list[WorkerStatus] = []

    def read(self) -> list[WorkerStatus]:
        """Look again, and return `living`."""
        beats = {beat.process: beat for beat in self._files()}
        files = {process[:2] for process in beats}
        for process, history in self._histories.items():
            history.has_file = process in beats
            history.replaced |= not history.has_file and process[:2] in files
        for process, beat in beats.items():
            # One that comes later has just begun.
            history = self._histories.setdefault(process, _History(beat, deque([beat], maxlen=KEPT)))
            if history.kept[-1].at != beat.at:
                history.kept.append(beat)
        oldest = now_ns() - FRESH_NS
        self.living = [beat for beat in beats.values() if beat.at > oldest]
        replaced = [history.kept[-1] for history in self._histories.values() if history.replaced]
        self.stale = [beat for beat in beats.values() if beat.at <= oldest] + replaced
        return self.living

    def _files(self) -> Iterator[WorkerStatus]:
        for path in [] if self._directory is None else sorted(self._directory.glob("*.heartbeat")):
            with suppress(OSError, ValueError, TypeError):  # just being removed, or just being made
                yield WorkerStatus(**json.loads(path.read_bytes()))

    def per_second(self) -> dict[str, float]:
        """Purchases a second by outcome, over the heartbeats that are kept; empty before a second one."""
        rates: defaultdict[str, float] = defaultdict(float)
        for last in self.living:
            first = self._histories[last.process].kept[0]
            for outcome, count in last.outcomes.items() if last.at > first.at else ():
                rates[outcome] += (count - first.outcomes.get(outcome, 0)) * 1e9 / (last.at - first.at)
        return {outcome: round(rate, 1) for outcome, rate in rates.items()}

    def begin(self, at_ns: int) -> None:
        """Count the answers since `at_ns`, which is at most a second ago."""
        self._histories = {process: history for process, history in self._histories.items() if history.has_file}
        for history in self._histories.values():
            history.before = next((beat for beat in reversed(history.kept) if beat.at <= at_ns), history.kept[0])

    @property
    def outcomes(self) -> Counter[str]:
        """Purchases by outcome since `begin`, those of processes that have ended included."""
        total = Counter[str]()
        for history in self._histories.values():
            total.update(history.kept[-1].outcomes)
            total.subtract(history.before.outcomes)
        return +total
