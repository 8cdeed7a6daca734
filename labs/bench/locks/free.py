"""A lock that is free, which is what nearly every acquisition meets: one process, one thread, no one else.

Candidates take turns, five rounds of a second each, so that what else the machine does meets all alike: read the
ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

from labs.bench.locks.bench import run_workers, say_count, told
from labs.bench.tables import ResultTable
from loadtest.stack.servers import Etcd, Redis

_ROUNDS = 5
OURS = (
    "same name", "main thread", "new names", "ten names", "linger", "linger in main", "two transactions", "redis-lock"
)  # fmt: skip
OF_GO = ("go", "go-new-names")


def measure_free_locks(
    etcd: Etcd, redis: Redis, programs: Mapping[str, Sequence[str]], seconds: float
) -> dict[str, float]:
    """Acquisitions with their releases per second, by candidate: medians over rounds of `seconds`."""
    found: dict[str, list[float]] = {candidate: [] for candidate in programs}
    for turn in range(_ROUNDS):
        for candidate, program in programs.items():
            words = [*program, candidate, etcd.endpoint, redis.url, f"free/{candidate}/{turn}", "1", str(seconds)]
            with run_workers(words, words[-3], etcd, 1) as workers:
                time.sleep(0.2 if turn == 0 else 0.05)
                say_count(workers)
                [counted] = told(workers)
            found[candidate].append(counted["turns"] / counted["seconds"])
    return {candidate: statistics.median(values) for candidate, values in found.items()}


def free_lock_table(found: Mapping[str, float]) -> ResultTable:
    """A free lock: acquisitions with their releases per second, one thread of one process."""
    bare, go = found["two transactions"], found.get("go")
    rows = [
        [candidate, f"{rate:.0f}", f"{rate / bare:.2f}", f"{rate / go:.2f}" if go else "-"]
        for candidate, rate in found.items()
    ]
    return ResultTable("free", str(free_lock_table.__doc__), ["lock", "per s", "x two transactions", "x Go"], rows)
