"""What a run costs: CPU time of each process, calls to etcd, trips to Redis; as the servers count them."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psutil
import redis

from labs.bench.result import CPU
from loadtest.stack.process import ManagedProcess
from loadtest.stack.servers import Etcd
from loadtest.stack.stack import Stack
from lock import Mutex, Session, connect

_HANDOVERS_S = 1.0
_ROUNDS, _WAITERS = 3, 16
_PATIENCE_S = 60.0
T = TypeVar("T")


class Meter:
    """Reads the counters of one running stack; `bare` is one more instance."""

    def __init__(self, stack: Stack, bare: ManagedProcess | None = None) -> None:
        self._stack = stack
        self._redis = redis.Redis.from_url(stack.redis.url, decode_responses=True)
        self._redis.ping()
        self._processes = {
            "instances": [process for each in (*stack.instances, bare) for process in processes_of(each)],
            "etcd": processes_of(stack.etcd),
        }

    def close(self) -> None:
        self._redis.close()

    def measure(self, work: Callable[[], T]) -> tuple[T, dict[str, float]]:
        """The result of `work`, and what was used meanwhile; the buyers are this process, and only at work."""
        before = self._read()
        busy_s, buyers_s, began = _busy_s(), time.process_time(), time.monotonic()
        done = work()
        lasted_s = time.monotonic() - began
        busy_s, buyers_s = _busy_s() - busy_s, time.process_time() - buyers_s
        used = {name: total - before[name] for name, total in self._read().items()}
        used |= {"redis_trips": used["redis_trips"] - 1, "buyers": buyers_s}  # to read the counter is a trip
        others_s = max(busy_s - sum(used[name] for name in CPU), 0.0)
        return done, used | {"others_cpus": others_s / lasted_s}

    def _read(self) -> dict[str, float]:
        """Totals since the start of each process, as `MeasuredRush` has them."""
        calls, _, puts = etcd_served(self._stack.etcd)
        info: Any = self._redis.info()
        totals = {
            name: float(sum(sum(process.cpu_times()[:2]) for process in processes))
            for name, processes in self._processes.items()
        }
        # By microseconds, where the system's own figures go by 10 ms: a click costs Redis less than 0.1 ms.
        totals["redis"] = float(info["used_cpu_user"]) + float(info["used_cpu_sys"])
        return totals | {"etcd_calls": calls, "redis_trips": info["total_reads_processed"], "etcd_puts": puts}


def etcd_served(etcd: Etcd) -> tuple[float, float, float]:
    """Calls that etcd was asked since its start, messages that it sent to watches, and keys that it wrote."""
    with urllib.request.urlopen(f"http://{etcd.endpoint}/metrics", timeout=5) as response:
        text = str(response.read().decode())
    calls = re.findall(r'^grpc_server_started_total\{.*grpc_type="unary"\} (\S+)$', text, re.MULTILINE)
    events = re.findall(r'^grpc_server_msg_sent_total\{.*grpc_method="Watch".*\} (\S+)$', text, re.MULTILINE)
    puts = re.findall(r"^etcd_mvcc_put_total (\S+)$", text, re.MULTILINE)
    return sum(map(float, calls)), sum(map(float, events)), sum(map(float, puts))


def repeat(step: Callable[[], object], seconds: float) -> int:
    """How often it was done in so many seconds."""
    until, done = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        step()
        done += 1
    return done


def measure_handover_ms(etcd: Etcd) -> float:
    """Milliseconds from one holder of a mutex to the next, if waiters of two sessions take turns.

    The best of some rounds: whatever else the machine does makes it slower.
    """
    with connect(etcd.endpoint) as client, Session(client, ttl=10) as one, Session(client, ttl=10) as other:
        mutexes = [Mutex(session, "bench/handover") for session in (one, other)] * (_WAITERS // 2)

        def take_turns(mutex: Mutex) -> int:
            return repeat(lambda: mutex.acquire(timeout=_PATIENCE_S).release(), _HANDOVERS_S)

        with ThreadPoolExecutor(_WAITERS) as threads:
            return min(1000 * _HANDOVERS_S / sum(threads.map(take_turns, mutexes)) for _ in range(_ROUNDS))


def _busy_s() -> float:
    """Seconds for which the CPUs of this machine have had something to do."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))


def processes_of(server: ManagedProcess | None) -> list[psutil.Process]:
    """All processes of a server that runs; none without one."""
    if server is None:
        return []
    parent = psutil.Process(server.pid)
    return [parent, *parent.children(recursive=True)]
