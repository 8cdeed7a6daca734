"""A benchmark that was never run, for tests of its tables."""

from __future__ import annotations

from app.contract.outcomes import Outcome
from labs.bench.result import BenchResult, Case, MeasuredRush, Row
from labs.bench.suite import PARTS
from loadtest.results.answer import Answer

GUARDS = {"none": 0.2, "redis-lua": 0.1, "etcd-batch": 0.15, "etcd": 0.8}


def rush_of(wall_s: float, verdict: str = "EXACT") -> MeasuredRush:
    """One round of four clicks that took `wall_s`; two clicks share a token."""
    answers = [
        Answer(str(n), Outcome.SOLD, "a", answered_ms=wall_s * 1000, held_ms=2.0 + n % 2, token=[7, n // 2])
        for n in range(4)
    ]
    cpu_s = {"instances": 0.004, "etcd": 0.002, "redis": 0.001, "buyers": 0.001}
    used = {**cpu_s, "etcd_calls": 8, "redis_trips": 4, "etcd_puts": 2, "others_cpus": 1.0}
    return MeasuredRush(wall_s, answers, verdict, used)


def benchmark() -> BenchResult:
    """Some guards in every part."""
    machine = {"system": "Linux", "machine": "riscv64", "cpus": 2}
    made = BenchResult("2026-01-01T00:00:00+00:00", {"python": "3.12"}, machine=machine, handover_ms=1.5)
    for part in PARTS:
        for instances in (2, 4) if part == "instances" else (2,):
            for guard, wall_s in GUARDS.items():
                case = Case(part, guard, 4, 4, instances=instances, observed=part == "click", pinned=True)
                rounds = [rush_of(wall_s * n) for n in (1, 2, 3)]
                made.rows.append(Row.of(case, rounds))
    return made
