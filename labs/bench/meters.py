"""What a run has cost: CPU and memory of each process, calls to etcd, trips to Redis; as the servers count them."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil
import redis

from labs.bench.result import Count
from loadtest.stack.process import ManagedProcess
from loadtest.stack.servers import Etcd
from loadtest.stack.stack import Stack

_MIB = 1024 * 1024
T = TypeVar("T")


class Meter:
    """Reads the counters of one running stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._nodes = [redis.Redis.from_url(node.url, decode_responses=True) for node in stack.redis.members]
        for node in self._nodes:
            node.ping()
        self._processes = {
            "instances": [_family(instance) for instance in stack.instances],
            "etcd": [_family(stack.etcd)],
            "redis": [_family(node) for node in stack.redis.members],
        }

    def close(self) -> None:
        """Close the connections to Redis."""
        for node in self._nodes:
            node.close()

    def spent(self, work: Callable[[], T]) -> tuple[T, Count]:
        """The result of `work`, and what was counted meanwhile; the buyers are this process, and only at work."""
        before, began = self._read(), time.process_time()
        done = work()
        buyers_s = time.process_time() - began
        count = self._read().since(before)
        count.cpu_s["buyers"] = buyers_s
        return done, count

    def _read(self) -> Count:
        calls, events, puts = etcd_served(self._stack.etcd)
        stats: list[Any] = [node.info("stats") for node in self._nodes]
        trips = [each["total_reads_processed"] for each in stats]
        cpu_s = {
            name: float(sum(sum(process.cpu_times()[:2]) for family in families for process in family))
            for name, families in self._processes.items()
        }
        return Count(cpu_s, calls, events, trips, puts)

    def peak_mib(self) -> dict[str, float]:
        """The most memory that one instance, etcd and Redis have had since they began, in MiB."""
        return {
            name: round(max(sum(map(_peak_bytes, family)) for family in families) / _MIB, 1)
            for name, families in self._processes.items()
        }


def etcd_metrics(etcd: Etcd) -> str:
    """Prometheus's text."""
    with urllib.request.urlopen(f"http://{etcd.endpoint}/metrics", timeout=5) as response:
        return str(response.read().decode())


def etcd_served(etcd: Etcd) -> tuple[float, float, float]:
    """Calls that etcd was asked since its start, messages that it sent to watches, and keys that it wrote."""
    text = etcd_metrics(etcd)
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


def _family(process: ManagedProcess) -> list[psutil.Process]:
    parent = psutil.Process(process.pid)
    return [parent, *parent.children(recursive=True)]


def _peak_bytes(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    return int(process.memory_info().rss)
