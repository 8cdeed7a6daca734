"""What one step costs on this machine: a trip to Redis, a call to etcd, a watch message, a hand-over of the lock.

`loadtest.simulate` puts clicks together from these steps.
"""

from __future__ import annotations

import inspect
import re
import statistics
import time
import urllib.request
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import redis

from loadtest.bench.locks.bench import PYTHON, measure
from loadtest.bench.meters import Meter
from loadtest.bench.result import QUEUE, Case
from loadtest.bench.runner import Bench
from loadtest.stack.process import scratch_directory
from loadtest.stack.servers import Etcd
from loadtest.stack.stack import Stack
from lock import CohortMutex, connect

_SECONDS = 0.5
_ROUNDS = 3
_CROWD = 64
_CLICKS = 1000
_WATCHES = 64
_FSYNC = re.compile(r"^etcd_disk_wal_fsync_duration_seconds_(sum|count) (\S+)$", re.MULTILINE)

_COHORT = inspect.signature(CohortMutex).parameters
# The defaults of app/config/settings.py and of the guards; a test compares them.
SETTINGS = {
    "threads": 256.0,
    "queue": float(QUEUE),
    "lock_timeout_s": 10.0,
    "cohort_turns": float(_COHORT["batch"].default),
    "cohort_slice_s": float(_COHORT["slice"].default),
    "group": 128.0,
    "shards": 4.0,
    "shard_poll_s": 0.1,
    "poll_s": 0.1,
    "watch_pause_s": 0.004,
    "watch_longest_s": 0.8,
}


def measure_costs(stack: Stack, meter: Meter) -> dict[str, float]:
    """Milliseconds of CPU time unless said otherwise. "Shared" means by 64 threads at once.

    - `trip_ms`, `redis_trip_ms`: of the client and of Redis for a shared round trip; `trips_shared`: trips per second.
    - `rpc_ms`, `etcd_rpc_ms`: of the client and of etcd for a shared write; `commits_shared`: writes per second.
    - `event_ms`, `etcd_event_ms`: of the client and of etcd for a watch message.
    - `sync_ms`: until etcd's log is on the disk, as etcd measures it; not CPU time.
    - `busy_ms`: of an instance for a click that is answered `busy`.
    - `handover_ms`: from one holder of the mutex to the next in another process; not CPU time.
    - `cohort_ms`: the same between threads, and now and then to another process.
    """
    rounds = [{**_redis(stack, meter), **_etcd(stack, meter)} for _ in range(_ROUNDS)]
    medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    return {name: round(cost, 4) for name, cost in {**medians, **_locks(stack), **_busy()}.items()} | SETTINGS


def _redis(stack: Stack, meter: Meter) -> dict[str, float]:
    with redis.Redis.from_url(stack.redis.members[0].url, max_connections=_CROWD) as client:
        steps, ms = _spent(meter, lambda: client.get("bench"))
    return {"trip_ms": ms["buyers"], "redis_trip_ms": ms["redis"], "trips_shared": steps / _SECONDS}


def _etcd(stack: Stack, meter: Meter) -> dict[str, float]:
    with connect(stack.etcd.endpoint) as client:
        lease, number = client.grant(60), count()
        synced, syncs = _fsyncs(stack.etcd)

        def write() -> None:
            client.create(f"bench/cost/{next(number)}", b"", lease.id)

        steps, ms = _spent(meter, write)
        synced, syncs = _fsyncs(stack.etcd)[0] - synced, _fsyncs(stack.etcd)[1] - syncs
        watches = [client.watch("bench/cost/") for _ in range(_WATCHES)]
        with ThreadPoolExecutor(_WATCHES) as readers:
            for watch in map(iter, watches):
                next(watch)  # it stands
                readers.submit(deque, watch, 0)
            _, watched = _spent(meter, write)
            for each in watches:
                each.close()
        client.revoke(lease.id, timeout=30)
    return {
        "rpc_ms": ms["buyers"],
        "etcd_rpc_ms": ms["etcd"],
        "commits_shared": steps / _SECONDS,
        "event_ms": max(watched["buyers"] - ms["buyers"], 0.0) / _WATCHES,
        "etcd_event_ms": max(watched["etcd"] - ms["etcd"], 0.0) / _WATCHES,
        "sync_ms": 1000 * synced / syncs,
    }


def _locks(stack: Stack) -> dict[str, float]:
    """Between two processes with one waiter each, and with 25 each."""
    strict, cohort = (
        measure(candidate, waiters, stack.etcd, stack.redis.members[0], _SECONDS, program=PYTHON)
        for candidate, waiters in (("strict", 2), ("cohort", 50))
    )
    return {"handover_ms": 1000 / strict.per_s, "cohort_ms": 1000 / cohort.per_s}


def _busy() -> dict[str, float]:
    """An instance with room for one click only."""
    env = {"FLASHSALE_QUEUE": "1", "FLASHSALE_SECTION_LOG": ""}
    with (
        scratch_directory() as directory,
        Stack(directory, ports="free", instances=1, env=env) as stack,
        Bench.on(stack) as bench,
    ):
        rounds = [bench.run(Case("costs", "redis-lua", _CLICKS, 1)) for _ in range(_ROUNDS)]
    return {"busy_ms": 1000 * statistics.median(each.count.cpu_s["instances"] for each in rounds) / _CLICKS}


def _spent(meter: Meter, step: Callable[[], object]) -> tuple[int, dict[str, float]]:
    """How often many threads did the step, and CPU milliseconds for each time, by process."""
    until = time.monotonic() + _SECONDS

    def repeat(_: int) -> int:
        done = 0
        while time.monotonic() < until:
            step()
            done += 1
        return done

    before = meter.read()
    with ThreadPoolExecutor(_CROWD) as pool:
        steps = sum(pool.map(repeat, range(_CROWD)))
    spent = meter.read().since(before).cpu_s
    return steps, {name: 1000 * seconds / steps for name, seconds in spent.items()}


def _fsyncs(etcd: Etcd) -> tuple[float, float]:
    """Seconds that etcd has waited for its log since its start, and how often."""
    with urllib.request.urlopen(f"http://{etcd.endpoint}/metrics", timeout=5) as response:
        found = dict(_FSYNC.findall(response.read().decode()))
    return float(found["sum"]), float(found["count"])
