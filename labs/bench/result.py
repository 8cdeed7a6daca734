"""The result of `bench`, in the shape of its JSON file."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from loadtest.results.answer import Answer
from loadtest.results.comparison import Percentiles
from loadtest.results.json_files import read_object, restore, write_text_file
from loadtest.results.machine import about_machine

CPU = ("instances", "etcd", "redis", "buyers")


@dataclass(frozen=True)
class Case:
    """What is measured."""

    part: str  # of the benchmark
    guard: str
    buyers: int  # clicks in one run
    stock: int  # items for sale
    instances: int = 2  # at which they click; the stack may have more
    hold_ms: int = 0
    rate: float = 0.0  # clicks per second of an open load; 0 for one burst
    connections: int = 0  # of a closed loop, in which each connection clicks again once it is answered; 0 for a burst
    pinned: bool = False  # each instance on a CPU of its own, as the local stack has them; else on all of them


@dataclass(frozen=True)
class MeasuredRush:
    """One round of a case."""

    wall_s: float
    answers: Sequence[Answer]
    verdict: str
    # CPU seconds by `CPU`; `etcd_calls`, the RPCs that etcd was asked; `etcd_puts`, the keys that were written, of
    # which an acquisition of a lock is one; `redis_trips`, the requests that Redis has read from connections, of which
    # a pipeline is one; and `others_cpus`, how many CPUs all other programs on the machine kept busy.
    used: dict[str, float]

    def locked_ms(self) -> list[float]:
        """The length of each critical section under a fencing token; a group that shares a token is one section."""
        longest: dict[str, float] = {}
        for answer in self.answers:
            if answer.token is not None and answer.held_ms is not None:
                longest[str(answer.token)] = max(answer.held_ms, longest.get(str(answer.token), 0.0))
        return list(longest.values())


@dataclass(frozen=True)
class Row:
    """All rounds of a case. Everything from `cpu_ms` on is per click, averaged over the rounds; see `MeasuredRush`."""

    case: Case
    walls_s: list[float]  # seconds from the first click to the last answer, for each round
    outcomes: dict[str, int]  # of all rounds together
    verdicts: dict[str, int]  # how often each occurred
    purchase_ms: Percentiles  # from click to answer, over all rounds
    cpu_ms: dict[str, float]  # CPU milliseconds by process
    etcd_calls: float
    redis_trips: float
    etcd_puts: float = 0.0
    # Milliseconds in critical sections under a fencing token, each as long as the shortest tenth of them: the others
    # have waited for a CPU.
    locked_ms: float = 0.0
    others_cpus: float = 0.0  # how many CPUs other programs kept busy meanwhile

    @classmethod
    def of(cls, case: Case, runs: Sequence[MeasuredRush]) -> Row:
        """The figures of at least one run."""
        answers = [answer for run in runs for answer in run.answers]
        sections = sorted(ms for run in runs for ms in run.locked_ms())

        def per_click(name: str, factor: float = 1.0) -> float:
            return round(factor * sum(run.used[name] for run in runs) / len(answers), 3)

        return cls(
            case,
            [round(run.wall_s, 4) for run in runs],
            dict(Counter(answer.outcome.value for answer in answers)),
            dict(Counter(run.verdict for run in runs)),
            Percentiles.of(answer.purchase_ms for answer in answers),
            {name: per_click(name, 1000) for name in CPU},
            per_click("etcd_calls"),
            per_click("redis_trips"),
            per_click("etcd_puts"),
            round(len(sections) * sections[len(sections) // 10] / len(answers), 3) if sections else 0.0,
            round(statistics.fmean(run.used["others_cpus"] for run in runs), 3),
        )

    @property
    def wall_s(self) -> float:
        """The median."""
        return statistics.median(self.walls_s)

    @property
    def per_s(self) -> float:
        """Clicks answered per second, by the median."""
        return self.case.buyers / self.wall_s

    def share(self, *outcomes: str) -> float:
        """The share of clicks that had one of these outcomes."""
        return sum(self.outcomes.get(outcome, 0) for outcome in outcomes) / sum(self.outcomes.values())


@dataclass
class BenchResult:
    """One run of the benchmark."""

    started: str
    versions: dict[str, str]  # of what took part
    machine: dict[str, Any] = field(default_factory=about_machine)  # where it ran
    # From one holder of an etcd mutex to the next in another session; 0 if it was not measured.
    handover_ms: float = 0.0
    rows: list[Row] = field(default_factory=list)  # all parts, in the order in which they were measured

    def part(self, name: str) -> list[Row]:
        return [row for row in self.rows if row.case.part == name]

    def multiple(self, row: Row, guard: str, *, speed: bool = False, pinned: bool | None = None) -> str:
        """The row's wall time, or speed, as a multiple of that of `guard` in the same setting, or pinned or not."""
        same = replace(row.case, guard=guard, pinned=row.case.pinned if pinned is None else pinned)
        ratios = [row.wall_s / other.wall_s for other in self.rows if other.case == same]
        return f"{1 / ratios[0] if speed else ratios[0]:.2f}" if ratios else "-"

    @property
    def others_share(self) -> float:
        """The share of all CPU time that other programs took while this was measured."""
        measured_s = sum(sum(row.walls_s) for row in self.rows)
        others_s = sum(sum(row.walls_s) * row.others_cpus for row in self.rows)
        return others_s / measured_s / self.cpus if measured_s else 0.0

    @property
    def cpus(self) -> int:
        return int(self.machine.get("cpus") or 1)

    def write(self, path: Path) -> None:
        write_text_file(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> BenchResult:
        """What `write` wrote; raises KeptError."""
        return restore(cls, read_object(path), path)
