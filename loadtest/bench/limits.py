"""What no guard can beat on this machine, as clicks per second, next to what each guard reached."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import redis

from loadtest import REPOSITORY
from loadtest.bench.clients import Click, ClientPool, without_garbage_collection
from loadtest.bench.locks.bench import serial_commits
from loadtest.bench.result import BenchResult, Row
from loadtest.bench.runner import STACK_SETTINGS
from loadtest.stack.stack import Stack

# Guards under which no other purchase comes between the read and the write: two trips to Redis for each purchase.
IN_TURN = ("etcd", "etcd-unfenced", "etcd-cohort", "redis-lock", "redis-watch")
HTTP, TURNS, CPUS = "HTTP alone", "two trips to Redis in turn", "the CPUs"
_SECONDS = 1.0
_ROUNDS = 5
_PATIENCE_S = 60.0


def limits(result: BenchResult, row: Row) -> dict[str, float]:
    """What holds for this guard, lowest first, in clicks per second."""
    # If the CPUs did nothing but what a click costs in instances, etcd, Redis and buyers.
    by_cpus = 1000 * int(result.machine["cpus"]) / sum(row.cpu_ms.values())
    found = {HTTP: result.bounds["http"], CPUS: by_cpus}
    if row.case.guard in IN_TURN:  # a buyer that is told "sold out" may need no turn
        sold = max(row.outcomes.get("sold", 0) / sum(row.outcomes.values()), 0.01)
        found[TURNS] = result.bounds["trips"] / 2 / sold
    return dict(sorted(found.items(), key=lambda limit: limit[1]))


def limits_table(result: BenchResult) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: the limits of the rush under each guard, and how much of the lowest was reached."""
    headings = ["guard", "clicks/s", HTTP, TURNS, CPUS, "lowest", "reached"]
    return headings, [_cells(row, limits(result, row)) for row in result.part("rush")]


def _cells(row: Row, found: dict[str, float]) -> list[str]:
    lowest = next(iter(found))
    shown = [f"{found[name]:.0f}" if name in found else "-" for name in (HTTP, TURNS, CPUS)]
    return [row.case.guard, f"{row.per_s:.0f}", *shown, lowest, f"{100 * row.per_s / found[lowest]:.0f} %"]


def measure_bounds(stack: Stack, *, buyers: int = 500) -> dict[str, float]:
    """Per second.

    - `http`: answers of all instances to a burst of requests that touch nothing (``GET /livez``): what Flask, gunicorn
      and Python leave for everything else.
    - `commits`: writes to etcd by one client that waits for each: a lock that passes to another process needs one.
    - `trips`: round trips to Redis by one client that waits for each: two of them are needed to read and to write.

    And in CPU milliseconds, `locust_ms`: what a click costs Locust.
    """
    return {
        "http": round(buyers / statistics.median(_http(stack.urls, buyers) for _ in range(_ROUNDS)), 1),
        "commits": round(serial_commits(stack.etcd.endpoint, _SECONDS), 1),
        "trips": round(_trips(stack.redis.members[0].url), 1),
        "locust_ms": round(_locust_ms(stack, buyers), 3),
    }


def _http(urls: Sequence[str], buyers: int) -> float:
    with without_garbage_collection(), ClientPool(urls) as clients:
        clients.connect(buyers)
        answers = clients.burst([Click("", "/livez", "GET") for _ in range(buyers)])
    return max(answer.received for answer in answers) - min(answer.sent for answer in answers)


def _locust_ms(stack: Stack, buyers: int) -> float:
    """From rushes with one round and with four, so that starting Locust does not count."""
    servers = {"FLASHSALE_REDIS_URL": stack.redis.url, "FLASHSALE_ETCD_ENDPOINTS": stack.etcd.endpoint}
    env = {**os.environ, **STACK_SETTINGS, **servers}
    command = [sys.executable, "-m", "locust", "--users", str(buyers), "--host", ",".join(stack.urls), "--guards"]

    def cpu_s(rounds: int) -> float:
        before = os.times()
        rush = [*command, *["redis-lua"] * rounds]
        subprocess.run(rush, cwd=REPOSITORY, env=env, capture_output=True, check=True, timeout=_PATIENCE_S)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return 1000 * (cpu_s(4) - cpu_s(1)) / (3 * buyers)


def _trips(url: str) -> float:
    with redis.Redis.from_url(url) as client:
        client.ping()
        began, count = time.monotonic(), 0
        while time.monotonic() - began < _SECONDS:
            client.ping()
            count += 1
        return count / (time.monotonic() - began)
