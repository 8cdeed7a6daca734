"""Heartbeats of the instances (`app.server.heartbeat`): which processes live, and how their purchases end."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.clock import now_ns

FRESH_NS = 1_500_000_000
WINDOW_NS = 1_000_000_000

Process = tuple[str, int]  # instance and process id, which two containers may share


@dataclass(frozen=True)
class WorkerStatus:
    """One heartbeat of a worker process; `outcomes` counts its purchases since it began."""

    at: int
    instance: str
    pid: int
    threads: int
    busy: int
    queued: int
    outcomes: dict[str, int]

    @property
    def process(self) -> Process:
        """Whose heartbeat it is."""
        return self.instance, self.pid

    @property
    def in_hand(self) -> int:
        """Requests that are not answered yet."""
        return self.busy + self.queued


class HeartbeatReader:
    """Reads the heartbeats of all processes, and keeps those of the last second; one thread uses it.

    Args:
        directory: where the instances write; no process is seen if None.

    Attributes:
        living: the processes whose last heartbeat is new.
        stale: those whose last heartbeat is old: frozen, or killed.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._kept: dict[Process, deque[WorkerStatus]] = {}
        self.living: list[WorkerStatus] = []
        self.stale: list[WorkerStatus] = []

    def read(self) -> list[WorkerStatus]:
        """Look again; `living`."""
        found = self._files()
        self._kept = {beat.process: self._kept.get(beat.process) or deque() for beat in found}
        for beat in found:
            kept = self._kept[beat.process]
            if not kept or kept[-1].at != beat.at:
                kept.append(beat)
            while len(kept) > 2 and kept[-1].at - kept[1].at >= WINDOW_NS:
                kept.popleft()
        oldest = now_ns() - FRESH_NS
        self.living = [beat for beat in found if beat.at > oldest]
        self.stale = [beat for beat in found if beat.at <= oldest]
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
        """Purchases a second by outcome, over the last second; empty where no process told enough."""
        rates: defaultdict[str, float] = defaultdict(float)
        for last in self.living:
            first = self._kept[last.process][0]
            for outcome, count in last.outcomes.items() if last.at > first.at else ():
                rates[outcome] += (count - first.outcomes.get(outcome, 0)) * 1e9 / (last.at - first.at)
        return {outcome: round(rate, 1) for outcome, rate in rates.items()}

    def tally(self, began_ns: int) -> Tally:
        """Counts what is answered since `began_ns`, which is at most a second ago."""
        return Tally(
            {
                process: next((beat for beat in reversed(kept) if beat.at <= began_ns), kept[0])
                for process, kept in self._kept.items()
            }
        )


class Tally:
    """How purchases have ended in all processes since a moment.

    Args:
        before: the last heartbeat of each process before it.
    """

    def __init__(self, before: dict[Process, WorkerStatus]) -> None:
        self._before = before
        self._last = dict(before)

    def take(self, beats: Iterable[WorkerStatus]) -> None:
        """Count on; a process that is seen for the first time has just begun, or is counted from here."""
        for beat in beats:
            self._before.setdefault(beat.process, beat)
            self._last[beat.process] = beat

    @property
    def outcomes(self) -> Counter[str]:
        """Purchases by outcome."""
        total = Counter[str]()
        for process, last in self._last.items():
            total.update(last.outcomes)
            total.subtract(self._before[process].outcomes)
        return +total
