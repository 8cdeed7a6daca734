"""Hand-overs per second of our locks, of Go's, of etcd's lock RPC and of redis-py's Lock, in one run on one etcd.

The yardstick is the rate of serial commits of that very etcd: a lock that passes through etcd at each hand-over
cannot be faster. RPCs and watch messages are those the server itself has counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from labs.bench.meters import etcd_served, repeat
from labs.bench.tables import ResultTable
from loadtest.stack.servers import Etcd, Redis
from lock import EtcdUnavailable, connect

PROCESSES = 2
_WARM_UP_S = 2.0
_PATIENCE_S = 60.0
OF_GO = ("go", "go-burst")
_BURSTS = {"burst": "go-burst", "go-burst": "go-burst"}  # each waiter takes the lock once, all at one moment
_QUEUE_IN_ETCD = ("strict", "go", "asyncio", "lock-rpc")
CANDIDATES = (*_QUEUE_IN_ETCD, "cohort", "redis-lock", *_BURSTS)
PYTHON = (sys.executable, "-m", "labs.bench.locks.worker")


class TurnsMissing(Exception):
    """A candidate does not come far enough with so many waiters for anything to be counted."""


@dataclass(frozen=True)
class LockResult:
    """One candidate with a number of waiters."""

    candidate: str
    waiters: int
    per_s: float  # hand-overs per second over all processes
    to_commits: float  # the same as a share of the serial commits measured right before and after
    rpcs: float  # per hand-over, as etcd counted them
    watch_messages: float  # likewise
    cpu_ms: float  # CPU milliseconds of the clients per hand-over
    longest_wait_s: float  # of a turn that was taken while counting


def serial_commits(endpoint: str) -> int:
    """Writes per second by one thread that waits for each."""
    with connect(endpoint) as client:
        lease, number = client.grant(60), count()
        commits = repeat(lambda: client.create(f"bench/commit/{next(number)}", b"", lease.id), 1.0)
        client.revoke(lease.id, timeout=30)
    return commits


def measure(
    candidate: str, waiters: int, etcd: Etcd, redis: Redis, seconds: float, *, program: Sequence[str]
) -> LockResult:
    """Let two processes of the program compete, and count once all of them queue."""
    name = f"bench/{candidate}/{waiters}"
    before = serial_commits(etcd.endpoint)
    words = [*program, candidate, etcd.endpoint, redis.url, name, str(waiters // PROCESSES), str(seconds)]
    with run_workers(words, name, etcd, PROCESSES) as workers:
        if candidate in _QUEUE_IN_ETCD:
            _await_turns(name, waiters, etcd)
        elif candidate not in _BURSTS:
            time.sleep(_WARM_UP_S)
        calls, events, _ = etcd_served(etcd)
        say_count(workers)
        counted = told(workers)
        calls_then, events_then, _ = etcd_served(etcd)
    turns = sum(each["turns"] for each in counted)
    per_s = sum(each["turns"] / each["seconds"] for each in counted)
    commits = (before + serial_commits(etcd.endpoint)) / 2
    return LockResult(
        candidate,
        waiters,
        per_s,
        per_s / commits,
        (calls_then - calls) / max(turns, 1),
        (events_then - events) / max(turns, 1),
        1000 * sum(each["cpu_seconds"] for each in counted) / max(turns, 1),
        max(each["longest_wait_s"] for each in counted),
    )


@contextmanager
def run_workers(words: Sequence[str], name: str, etcd: Etcd, number: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Run some processes of a program, until all say that they queue; at the end kill them and delete their keys."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = [subprocess.Popen(words, **pipes) for _ in range(number)]
    try:
        for worker in workers:
            _line(worker)
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
        with connect(etcd.endpoint, timeout=30) as client:
            for lease in {kv.lease_id for kv in client.get_prefix(f"{name}/").keys}:
                client.revoke(lease)


def say_count(workers: Sequence[subprocess.Popen[str]]) -> None:
    """Have the workers begin to count."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("count\n")
        worker.stdin.flush()


def told(workers: Sequence[subprocess.Popen[str]]) -> list[dict[str, float]]:
    """What each worker has counted, once all have."""
    return [json.loads(_line(worker)) for worker in workers]


def _line(worker: subprocess.Popen[str]) -> str:
    """The next line that a worker prints."""
    assert worker.stdout is not None
    if line := worker.stdout.readline():
        return line
    raise TurnsMissing("a worker ended early")


def _await_turns(name: str, waiters: int, etcd: Etcd) -> None:
    """Wait until nearly all waiters are in etcd's queue (the last holder is about to come back), and it moves."""
    deadline, first = time.monotonic() + _PATIENCE_S, None
    with connect(etcd.endpoint, timeout=10) as client:
        while time.monotonic() < deadline:
            try:
                keys = client.get_prefix(f"{name}/").keys
            except EtcdUnavailable:  # thousands of waiting lock RPCs leave etcd time for little else
                continue
            if len(keys) >= 0.9 * waiters:
                first = first or keys[0]
                if first != keys[0]:
                    return
            time.sleep(0.2)
    raise TurnsMissing(f"they did not take turns within {_PATIENCE_S:g} s")


def table(results: Sequence[LockResult]) -> ResultTable:
    """Hand-overs of one lock between waiters of two processes. RPCs, events (watch messages) and CPU are for each."""
    rates = {(result.candidate, result.waiters): result.per_s for result in results}
    headings = ["lock", "waiters", "per s", "x commits", "x lock RPC", "x Go"]
    headings += ["RPCs", "events", "CPU ms", "longest wait"]
    rows = []
    for result in results:
        others = [rates.get((other, result.waiters)) for other in ("lock-rpc", _BURSTS.get(result.candidate, "go"))]
        row = [result.candidate, str(result.waiters), f"{result.per_s:.0f}", f"{result.to_commits:.2f}"]
        row += [f"{result.per_s / other:.1f}" if other else "-" for other in others]
        row += [f"{result.rpcs:.1f}", f"{result.watch_messages:.1f}", f"{result.cpu_ms:.2f}"]
        rows.append([*row, f"{result.longest_wait_s:.1f} s"])
    return ResultTable("bench-lock", str(table.__doc__), headings, rows)
