"""What no guard can beat on this machine, as clicks per second, next to what each guard reached."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import redis

from loadtest.bench.clients import Click, ClientPool, without_garbage_collection
from loadtest.bench.locks.bench import serial_commits
from loadtest.bench.result import BenchResult, Row
from loadtest.bench.tables import Grid
from loadtest.results.answer import wall_s
from loadtest.stack.stack import Stack

# Guards under which no other purchase comes between the read and the write: two trips to Redis for each purchase.
IN_TURN = ("etcd", "etcd-unfenced", "etcd-cohort", "redis-lock", "redis-watch")
HTTP, TURNS, CPUS = "HTTP alone", "two trips to Redis in turn", "the CPUs"
_BUYERS = 500
_SECONDS = 1.0
_ROUNDS = 5


def limits(result: BenchResult) -> Grid:
    """What bounds the rush under each guard, and how much of the lowest limit was reached."""
    headings = ["guard", "clicks/s", HTTP, TURNS, CPUS, "lowest", "reached"]
    return Grid("limits", str(limits.__doc__), headings, [_cells(result, row) for row in result.part("rush")])


def _cells(result: BenchResult, row: Row) -> list[str]:
    # If the CPUs did nothing but what a click costs in instances, etcd, Redis and buyers.
    found = {HTTP: result.bounds["http"], CPUS: 1000 * int(result.machine["cpus"]) / sum(row.cpu_ms.values())}
    if row.case.guard in IN_TURN:  # a buyer that is told "sold out" may need no turn
        found[TURNS] = result.bounds["trips"] / 2 / max(row.share("sold"), 0.01)
    lowest = min(found, key=lambda name: found[name])
    shown = [f"{found[name]:.0f}" if name in found else "-" for name in (HTTP, TURNS, CPUS)]
    return [row.case.guard, f"{row.per_s:.0f}", *shown, lowest, f"{100 * row.per_s / found[lowest]:.0f} %"]


def bounds(result: BenchResult) -> Grid:
    """What this machine can do at most, each alone."""
    names = {"http": "HTTP answers/s", "trips": "Redis trips/s", "commits": "etcd commits/s"}
    return Grid("bounds", str(bounds.__doc__), list(names.values()), [[f"{result.bounds[name]:.0f}" for name in names]])


def measure_bounds(stack: Stack) -> dict[str, float]:
    """Per second.

    - `http`: answers of all instances to a burst of requests that touch nothing (``GET /livez``): what Flask, gunicorn
      and Python leave for everything else.
    - `commits`: writes to etcd by one client that waits for each: a lock that passes to another process needs one.
    - `trips`: round trips to Redis by one client that waits for each: two of them are needed to read and to write.
    """
    return {
        "http": round(_BUYERS / statistics.median(_http(stack.urls) for _ in range(_ROUNDS)), 1),
        "commits": round(serial_commits(stack.etcd.endpoint), 1),
        "trips": round(_trips(stack.redis.members[0].url), 1),
    }


def _http(urls: Sequence[str]) -> float:
    with without_garbage_collection(), ClientPool(urls) as clients:
        clients.connect(_BUYERS)
        answers = clients.burst([Click("", "/livez", "GET")] * _BUYERS)
    return wall_s(answers)


def _trips(url: str) -> float:
    with redis.Redis.from_url(url) as client:
        client.ping()
        began, count = time.monotonic(), 0
        while time.monotonic() - began < _SECONDS:
            client.ping()
            count += 1
        return count / (time.monotonic() - began)
