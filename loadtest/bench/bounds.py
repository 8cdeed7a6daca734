"""What no guard can beat on this machine: the rates of what every purchase, or every hand-over, is made of."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import redis

from loadtest.bench.crowd import Click, Crowd
from loadtest.bench.lock import serial_commits
from loadtest.stack import Stack

_SECONDS = 1.0
_ROUNDS = 5


def measure_bounds(stack: Stack, *, buyers: int = 500) -> dict[str, float]:
    """Per second.

    - `http`: answers of all instances to a burst of requests that touch nothing (``GET /livez``): what Flask, gunicorn
      and Python leave for everything else.
    - `commits`: writes to etcd by one client that waits for each: two of them are needed to pass a lock on.
    - `trips`: round trips to Redis by one client that waits for each: two of them are needed to read and to write.
    """
    return {
        "http": round(buyers / statistics.median(_http(stack.urls, buyers) for _ in range(_ROUNDS)), 1),
        "commits": round(serial_commits(stack.etcd.endpoint, _SECONDS), 1),
        "trips": round(_trips(stack.redis.url), 1),
    }


def _http(urls: Sequence[str], buyers: int) -> float:
    with Crowd(urls) as crowd:
        crowd.gather(buyers)
        answers = crowd.burst([Click("", "/livez", "GET") for _ in range(buyers)])
    return max(answer.received for answer in answers) - min(answer.sent for answer in answers)


def _trips(url: str) -> float:
    with redis.Redis.from_url(url) as client:
        client.ping()
        began, count = time.monotonic(), 0
        while time.monotonic() - began < _SECONDS:
            client.get("bench")
            count += 1
        return count / (time.monotonic() - began)
