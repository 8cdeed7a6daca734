"""What no guard can beat on this machine: the rates of what every purchase, or every hand-over, is made of."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

import redis

from loadtest import REPOSITORY
from loadtest.bench.clients import Click, Crowd
from loadtest.bench.locks.bench import serial_commits
from loadtest.stack.stack import Stack

_SECONDS = 1.0
_ROUNDS = 5
_PATIENCE_S = 60.0


def measure_bounds(stack: Stack, *, buyers: int = 500) -> dict[str, float]:
    """Per second.

    - `http`: answers of all instances to a burst of requests that touch nothing (``GET /livez``): what Flask, gunicorn
      and Python leave for everything else.
    - `commits`: writes to etcd by one client that waits for each: a lock that passes to another process needs one.
    - `trips`: round trips to Redis by one client that waits for each: two of them are needed to read and to write.

    And in CPU milliseconds, `locust_ms`: what one of Locust's clicks costs the one who clicks.
    """
    return {
        "http": round(buyers / statistics.median(_http(stack.urls, buyers) for _ in range(_ROUNDS)), 1),
        "commits": round(serial_commits(stack.etcd.endpoint, _SECONDS), 1),
        "trips": round(_trips(stack.redis.url), 1),
        "locust_ms": round(_locust_ms(stack, buyers), 3),
    }


def _http(urls: Sequence[str], buyers: int) -> float:
    with Crowd(urls) as crowd:
        crowd.gather(buyers)
        answers = crowd.burst([Click("", "/livez", "GET") for _ in range(buyers)])
    return max(answer.received for answer in answers) - min(answer.sent for answer in answers)


def _locust_ms(stack: Stack, buyers: int) -> float:
    """From rushes with one round and with four, so that starting Locust does not count."""
    env = {**os.environ, "FLASHSALE_REDIS_URL": stack.redis.url, "FLASHSALE_ETCD_ENDPOINTS": stack.etcd.endpoint}
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
            client.get("bench")
            count += 1
        return count / (time.monotonic() - began)
