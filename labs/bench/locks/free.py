"""A lock that is free, which is what nearly every acquisition meets: one process, one thread, no one else.

Candidates take turns, five rounds of a second each, so that what else the machine does meets all alike: read the
ratios. Then what a long history and many names held at once cost one session.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import psutil

from labs.bench.locks.bench import PYTHON
from labs.bench.locks.go import GoMissing, compiled
from labs.bench.tables import ResultTable
from loadtest.stack.process import scratch_directory
from loadtest.stack.servers import Etcd, Redis
from lock import Mutex, Session, connect

_ROUNDS = 5
_SECONDS = 1.0
_HISTORY = 20_000  # releases of one lock
_HELD = 10_000  # names
_MIB = 1024 * 1024
T = TypeVar("T")
OURS = {"same name": PYTHON, "new names": PYTHON, "two transactions": PYTHON, "redis-lock": PYTHON}


def rates(etcd: Etcd, redis: Redis, go: Sequence[str] | None) -> dict[str, float]:
    """Acquisitions with their releases per second: medians over the rounds."""
    programs = dict(OURS) | ({"go": go, "go-new-names": go} if go else {})
    found: dict[str, list[float]] = {candidate: [] for candidate in programs}
    for turn in range(_ROUNDS):
        for candidate, program in programs.items():
            words = [*program, candidate, etcd.endpoint, redis.url, f"free/{candidate}/{turn}", "1", str(_SECONDS)]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
                assert worker.stdout is not None
                worker.stdout.readline()
                time.sleep(0.2 if turn == 0 else 0.05)
                told, _ = worker.communicate("count\n", timeout=60)
            counted = json.loads(told)
            found[candidate].append(counted["turns"] / counted["seconds"])
    return {candidate: statistics.median(values) for candidate, values in found.items()}


def after_history(etcd: Etcd) -> tuple[float, float]:
    """The rate of a fresh name, and that of one which was released 20,000 times without a compaction."""
    with connect(etcd.endpoint) as client, Session(client, ttl=30) as session:
        used = Mutex(session, "free/history")

        def rate(mutex: Mutex) -> float:
            number, end, began = 0, time.monotonic() + 0.5, time.monotonic()
            while time.monotonic() < end:
                with mutex.acquire(timeout=10):
                    number += 1
            return number / (time.monotonic() - began)

        def measure() -> tuple[float, float]:
            for _ in range(_HISTORY):
                with used.acquire(timeout=10):
                    pass
            pairs = [(rate(Mutex(session, f"free/fresh-{turn}")), rate(used)) for turn in range(_ROUNDS)]
            fresh, old = zip(*pairs, strict=True)
            return statistics.median(fresh), statistics.median(old)

        return _in_thread(measure)


def held(etcd: Etcd, seconds: float = 30.0) -> dict[str, float]:
    """What one session of TTL 10 s costs that holds 10,000 names for so long: lost holds, threads, CPU, memory."""
    process = psutil.Process()
    with connect(etcd.endpoint, timeout=10) as client, Session(client, ttl=10) as session:
        mutexes = [Mutex(session, "free/held/0")]
        holds = [mutexes[0].acquire(timeout=10)]
        memory = process.memory_info().rss

        def take() -> None:
            for number in range(1, _HELD):
                mutexes.append(Mutex(session, f"free/held/{number}"))
                holds.append(mutexes[-1].acquire(timeout=10))

        _in_thread(take)
        grown = (process.memory_info().rss - memory) / _MIB
        began, cpu = time.monotonic(), time.process_time()
        session.lost.wait(seconds)
        idle = (time.process_time() - cpu) / (time.monotonic() - began)
        lost = sum(hold.remaining() <= 0.0 for hold in holds)
        threads = sum(thread.name.startswith("lock-") for thread in threading.enumerate())
    return {"lost": lost, "threads": threads, "cpu": 100 * idle, "mib": grown}


def table(found: dict[str, float]) -> ResultTable:
    """A free lock: acquisitions with their releases per second, one thread of one process."""
    bare, go = found["two transactions"], found.get("go")
    rows = [
        [candidate, f"{rate:.0f}", f"{rate / bare:.2f}", f"{rate / go:.2f}" if go else "-"]
        for candidate, rate in found.items()
    ]
    return ResultTable("free", str(table.__doc__), ["lock", "per s", "x two transactions", "x Go"], rows)


def main() -> None:
    """Measure and print."""
    with scratch_directory() as directory, Etcd(directory) as etcd, Redis(directory) as redis:
        try:
            go: Sequence[str] | None = [str(compiled(Path(directory)))]
        except GoMissing as error:
            print(f"Go is left out: {error}")
            go = None
        grid = table(rates(etcd, redis, go))
        for row in [grid.headings, *grid.rows]:
            print("  ".join(cell.ljust(20) for cell in row))
        fresh, old = after_history(etcd)
        print(f"after {_HISTORY} releases: {old:.0f} per s, a fresh name {fresh:.0f}: {old / fresh:.2f}")
        cost = held(etcd)
        print(
            f"{_HELD} names held for 30 s: {cost['lost']} lost, {cost['threads']} threads, "
            f"{cost['cpu']:.1f} % of a core, {cost['mib']:.0f} MiB above one hold"
        )


def _in_thread(work: Callable[[], T]) -> T:
    """What it returns, done by a thread, as in a server: the main thread's calls take a way round."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


if __name__ == "__main__":
    main()
