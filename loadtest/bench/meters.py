"""What a run has cost: CPU of each process, calls to etcd, trips to Redis; as the servers count them."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psutil
import redis

from loadtest.bench.result import Count
from loadtest.stack.process import Process
from loadtest.stack.servers import Etcd
from loadtest.stack.stack import Stack

T = TypeVar("T")


class Meter:
    """Reads the counters of one running stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._nodes = [redis.Redis.from_url(node.url, decode_responses=True) for node in stack.redis.members]
        for node in self._nodes:
            node.ping()
        self._processes = {
            "instances": _families(stack.instances),
            "etcd": _families([stack.etcd]),
            "redis": _families(stack.redis.members),
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
            name: float(sum(sum(process.cpu_times()[:2]) for process in processes))
            for name, processes in self._processes.items()
        }
        return Count(cpu_s, calls, events, trips, puts)


def etcd_served(etcd: Etcd) -> tuple[float, float, float]:
    """Calls that etcd was asked since its start, messages that it sent to watches, and keys that it wrote."""
    with urllib.request.urlopen(f"http://{etcd.endpoint}/metrics", timeout=5) as response:
        text = response.read().decode()
    calls = re.findall(r'^grpc_server_started_total\{.*grpc_type="unary"\} (\S+)$', text, re.MULTILINE)
    events = re.findall(r'^grpc_server_msg_sent_total\{.*grpc_method="Watch".*\} (\S+)$', text, re.MULTILINE)
    puts = re.findall(r"^etcd_mvcc_put_total (\S+)$", text, re.MULTILINE)
    return sum(map(float, calls)), sum(map(float, events)), sum(map(float, puts))


def _families(started: Sequence[Process]) -> list[psutil.Process]:
    parents = [psutil.Process(each.pid) for each in started]
    return parents + [child for parent in parents for child in parent.children(recursive=True)]
