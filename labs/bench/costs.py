"""What no guard can beat on this machine, and what one step costs: a trip to Redis, a call to etcd, a watch message.

`loadtest.simulate` puts clicks together from these steps.
"""

from __future__ import annotations

import inspect
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import click
import redis

from labs.bench.clients import Click, ClientPool, without_garbage_collection
from labs.bench.locks.bench import PROCESSES, PYTHON, measure, serial_commits
from labs.bench.meters import Meter, etcd_metrics, repeat
from labs.bench.result import QUEUE, Case, Count
from labs.bench.runner import STACK_SETTINGS, Bench
from loadtest.results.answer import wall_s
from loadtest.stack.process import scratch_directory
from loadtest.stack.servers import Etcd
from loadtest.stack.stack import Stack
from lock import Client, CohortMutex, connect

_BUYERS = 500
_HTTP_ROUNDS = 5
_SECONDS = 0.5
_ROUNDS = 3
_CROWD = 64
_CLICKS = 1000
_WATCHES = 64
_CHANGES = 300  # seen by each watch
_PATIENCE_S = 60.0
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


class CostUnknown(click.ClickException):
    """A step was not found to cost anything."""


def measure_bounds(stack: Stack) -> dict[str, float]:
    """Per second.

    - `http`: answers of all instances to a burst of requests that touch nothing (``GET /livez``): what Flask, gunicorn
      and Python leave for everything else.
    - `commits`: writes to etcd by one client that waits for each: a lock that passes to another process needs one.
    - `trips`: round trips to Redis by one client that waits for each: two of them are needed to read and to write.
    """
    http_s = statistics.median(_http_s(stack.urls) for _ in range(_HTTP_ROUNDS))
    with redis.Redis.from_url(stack.redis.members[0].url) as client:
        client.ping()
        trips = repeat(client.ping, 1.0)
    commits = serial_commits(stack.etcd.endpoint)
    return {"http": round(_BUYERS / http_s, 1), "commits": commits, "trips": trips}


def _http_s(urls: Sequence[str]) -> float:
    with without_garbage_collection(), ClientPool(urls) as clients:
        clients.connect(_BUYERS)
        answers = clients.burst([Click("", "/livez", "GET")] * _BUYERS)
    return wall_s(answers)


def measure_costs(stack: Stack, meter: Meter) -> dict[str, float]:
    """Milliseconds of CPU time unless said otherwise. "Shared" means by 64 threads at once. Raises CostUnknown.

    - `trip_ms`, `redis_trip_ms`: of the client and of Redis for a shared round trip.
    - `rpc_ms`, `etcd_rpc_ms`: of the client and of etcd for a shared write.
    - `event_ms`, `etcd_event_ms`: of the client and of etcd for a watch message.
    - `sync_ms`: until etcd's log is on the disk, as etcd measures it; not CPU time.
    - `busy_ms`: of an instance for a click that is answered `busy`.
    - `handover_ms`: from one holder of the mutex to the next in another process; not CPU time.
    """
    rounds = [{**_redis(stack, meter), **_etcd(stack, meter)} for _ in range(_ROUNDS)]
    found = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    one_waiter_each = measure("strict", PROCESSES, stack.etcd, stack.redis.members[0], _SECONDS, program=PYTHON)
    found |= {"handover_ms": 1000 / one_waiter_each.per_s, "busy_ms": _busy_ms()}
    for name, cost in found.items():
        if cost <= 0:
            raise CostUnknown(f"{name} came out as {cost:.4f}; measure again on a machine that does nothing else")
    return {name: round(cost, 4) for name, cost in found.items()} | SETTINGS


def _redis(stack: Stack, meter: Meter) -> dict[str, float]:
    with redis.Redis.from_url(stack.redis.members[0].url, max_connections=_CROWD) as client:
        steps, spent = meter.spent(lambda: _share(lambda: client.get("bench")))
    return {"trip_ms": _ms(spent, "buyers", steps), "redis_trip_ms": _ms(spent, "redis", steps)}


def _etcd(stack: Stack, meter: Meter) -> dict[str, float]:
    with connect(stack.etcd.endpoint) as client:
        lease, number = client.grant(60), count()
        synced, syncs = _fsyncs(stack.etcd)

        def write() -> None:
            client.create(f"bench/cost/{next(number)}", b"", lease.id)

        steps, shared = meter.spent(lambda: _share(write))
        synced, syncs = _fsyncs(stack.etcd)[0] - synced, _fsyncs(stack.etcd)[1] - syncs
        events = _events(meter, client, write)
        client.revoke(lease.id, timeout=30)
    calls = {"rpc_ms": _ms(shared, "buyers", steps), "etcd_rpc_ms": _ms(shared, "etcd", steps)}
    return {**calls, **events, "sync_ms": 1000 * synced / syncs}


def _events(meter: Meter, client: Client, write: Callable[[], object]) -> dict[str, float]:
    """One thread writes, first without watches, then until each of many has told of all changes."""

    def write_all() -> None:
        for _ in range(_CHANGES):
            write()

    def read(changes: Iterator[Sequence[object]]) -> None:
        seen = 0
        while seen < _CHANGES:
            seen += len(next(changes))

    def write_and_read() -> None:
        write_all()
        for reader in readers:
            reader.result(_PATIENCE_S)

    _, alone = meter.spent(write_all)
    watches = [client.watch("bench/cost/") for _ in range(_WATCHES)]
    with ThreadPoolExecutor(_WATCHES) as threads:
        try:
            streams = [iter(watch) for watch in watches]
            for stream in streams:
                next(stream)  # it stands
            readers = [threads.submit(read, stream) for stream in streams]
            _, watched = meter.spent(write_and_read)
        finally:
            for watch in watches:
                watch.close()
    messages = watched.etcd_events  # fewer than changes, where etcd has put some together
    event_ms, etcd_event_ms = (_ms(watched, name, messages) - _ms(alone, name, messages) for name in ("buyers", "etcd"))
    return {"event_ms": event_ms, "etcd_event_ms": etcd_event_ms}


def _busy_ms() -> float:
    """An instance with room for one click only."""
    env = {**STACK_SETTINGS, "FLASHSALE_QUEUE": "1"}
    with (
        scratch_directory() as directory,
        Stack(directory, ports="free", instances=1, env=env) as stack,
        Bench(stack) as bench,
    ):
        rounds = [bench.run(Case("costs", "redis-lua", _CLICKS, 1)) for _ in range(_ROUNDS)]
    return statistics.median(_ms(each.count, "instances", _CLICKS) for each in rounds)


def _share(step: Callable[[], object]) -> int:
    """How often many threads did the step."""
    with ThreadPoolExecutor(_CROWD) as pool:
        return sum(pool.map(lambda _: repeat(step, _SECONDS), range(_CROWD)))


def _ms(spent: Count, name: str, steps: float) -> float:
    """CPU milliseconds for each step."""
    return 1000 * spent.cpu_s[name] / steps


def _fsyncs(etcd: Etcd) -> tuple[float, float]:
    """Seconds that etcd has waited for its log since its start, and how often."""
    found = dict(_FSYNC.findall(etcd_metrics(etcd)))
    return float(found["sum"]), float(found["count"])
