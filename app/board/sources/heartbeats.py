"""What the instances tell of themselves (`app.server.heartbeat`), and how many purchases a second that makes."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.clock import now_ns

FRESH_NS = 1_500_000_000
WINDOW_NS = 1_000_000_000


@dataclass(frozen=True)
class Life:
    """What one worker process told last."""

    at: int
    instance: str
    pid: int
    threads: int
    busy: int
    queued: int
    outcomes: dict[str, int]

    @property
    def process(self) -> tuple[str, int]:
        """Which process: in two containers they may have the same id."""
        return self.instance, self.pid


class HeartbeatReader:
    """Reads all processes' lines, and keeps those of the last second; one thread uses it.

    Args:
        directory: where the instances write; nobody is seen if None.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._told: dict[tuple[str, int], deque[Life]] = {}

    def read(self) -> list[Life]:
        """The processes that live: those whose line is new."""
        now = now_ns()
        lives = [life for life in self._lives() if now - life.at < FRESH_NS]
        self._told = {life.process: self._told.get(life.process) or deque() for life in lives}
        for life in lives:
            told = self._told[life.process]
            if not told or told[-1].at != life.at:
                told.append(life)
            while len(told) > 2 and told[-1].at - told[1].at >= WINDOW_NS:
                told.popleft()
        return lives

    def _lives(self) -> list[Life]:
        found = []
        for path in [] if self._directory is None else sorted(self._directory.glob("*.heartbeat")):
            try:
                told: dict[str, Any] = json.loads(path.read_bytes())
                found.append(Life(**told))
            except (OSError, ValueError, TypeError):  # just being removed, or just being made
                continue
        return found

    def per_second(self) -> dict[str, float]:
        """Purchases a second by outcome, over the last second; empty where no process told enough."""
        rates: defaultdict[str, float] = defaultdict(float)
        for told in self._told.values():
            first, last = told[0], told[-1]
            if last.at > first.at:
                for outcome, count in last.outcomes.items():
                    rates[outcome] += (count - first.outcomes.get(outcome, 0)) * 1e9 / (last.at - first.at)
        return {outcome: round(rate, 1) for outcome, rate in rates.items()}
