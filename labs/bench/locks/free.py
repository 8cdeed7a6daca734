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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import psutil

from labs.bench.tables import ResultTable
from loadtest.stack.servers import Etcd, Redis
from lock import Mutex, Session, connect

_ROUNDS = 5
_MIB = 1024 * 1024
T = TypeVar("T")
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
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
                assert worker.stdout is not None
                worker.stdout.readline()
                time.sleep(0.2 if turn == 0 else 0.05)
                told, _ = worker.communicate("count\n", timeout=60)
            counted = json.loads(told)
            found[candidate].append(counted["turns"] / counted["seconds"])
    return {candidate: statistics.median(values) for candidate, values in found.items()}


def rates_after_history(etcd: Etcd, releases: int) -> tuple[float, float]:
    """Per second: of a fresh name, and of one which was released so many times without a compaction."""
    with connect(etcd.endpoint) as client, Session(client, ttl=30) as session:
        used = Mutex(session, "free/history")

        def rate(mutex: Mutex) -> float:
            number, end, began = 0, time.monotonic() + 0.5, time.monotonic()
            while time.monotonic() < end:
                with mutex.acquire(timeout=10):
                    number += 1
            return number / (time.monotonic() - began)

        def measure() -> tuple[float, float]:
            for _ in range(releases):
                with used.acquire(timeout=10):
                    pass
            pairs = [(rate(Mutex(session, f"free/fresh-{turn}")), rate(used)) for turn in range(_ROUNDS)]
            fresh, old = zip(*pairs, strict=True)
            return statistics.median(fresh), statistics.median(old)

        return _in_thread(measure)


def wait_beside_linger_ms(etcd: Etcd, program: Sequence[str], waits: int = 100) -> float:
    """How long another process waits for a name that one takes again and again and keeps; the median."""
    name = "free/beside"
    words = [*program, "linger", etcd.endpoint, "", name, "1", "60"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        try:
            with connect(etcd.endpoint) as client, Session(client, ttl=10) as session:
                mutex = Mutex(session, name)

                def measure() -> float:
                    times = []
                    for _ in range(waits):
                        began = time.perf_counter()
                        with mutex.acquire(timeout=10):
                            times.append(time.perf_counter() - began)
                        time.sleep(0.02)
                    return 1000 * statistics.median(times)

                return _in_thread(measure)
        finally:
            worker.kill()


def ordered_release_ms(etcd: Etcd, releases: int = 500) -> float:
    """How long a release takes that does not wait for etcd; the median."""
    with connect(etcd.endpoint) as client, Session(client, ttl=10) as session:
        mutex = Mutex(session, "free/ordered")

        def measure() -> float:
            times = []
            for _ in range(releases):
                hold = mutex.acquire(timeout=10)
                began = time.perf_counter()
                hold.release(wait=False)
                times.append(time.perf_counter() - began)
            return 1000 * statistics.median(times)

        return _in_thread(measure)


class CostOfHolds(NamedTuple):
    """Of the names that one session holds at once.

    Attributes:
        lost: holds that were lost meanwhile.
        threads: of the library.
        cpu: share of a core.
        mib: of memory, above a single hold.
    """

    lost: int
    threads: int
    cpu: float
    mib: float


def measure_many_holds(etcd: Etcd, names: int, seconds: float) -> CostOfHolds:
    """What a session of TTL 10 s costs that holds so many names for so long."""
    process = psutil.Process()
    with connect(etcd.endpoint, timeout=10) as client, Session(client, ttl=10) as session:
        mutexes = [Mutex(session, "free/held/0")]
        holds = [mutexes[0].acquire(timeout=10)]
        memory = process.memory_info().rss

        def take() -> None:
            for number in range(1, names):
                mutexes.append(Mutex(session, f"free/held/{number}"))
                holds.append(mutexes[-1].acquire(timeout=10))

        _in_thread(take)
        grown = (process.memory_info().rss - memory) / _MIB
        began, cpu = time.monotonic(), time.process_time()
        session.lost.wait(seconds)
        idle = (time.process_time() - cpu) / (time.monotonic() - began)
        lost = sum(hold.remaining() <= 0.0 for hold in holds)
        threads = sum(thread.name.startswith("lock-") for thread in threading.enumerate())
    return CostOfHolds(lost, threads, idle, grown)


def free_lock_table(found: Mapping[str, float]) -> ResultTable:
    """A free lock: acquisitions with their releases per second, one thread of one process."""
    bare, go = found["two transactions"], found.get("go")
    rows = [
        [candidate, f"{rate:.0f}", f"{rate / bare:.2f}", f"{rate / go:.2f}" if go else "-"]
        for candidate, rate in found.items()
    ]
    return ResultTable("free", str(free_lock_table.__doc__), ["lock", "per s", "x two transactions", "x Go"], rows)


def _in_thread(work: Callable[[], T]) -> T:
    """What it returns, done by a thread, as in a server: in the main thread each step keeps signal handlers off."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()
