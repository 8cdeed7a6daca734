"""One of the processes that compete for a lock in `make bench-lock`.

    python -m labs.bench.locks.worker CANDIDATE ETCD REDIS NAME THREADS SECONDS

Every thread takes the lock, gives it back, and queues again. Says "queued" once all of them have begun; after a line
on its standard input it counts for SECONDS, prints what it counted as JSON, and ends. In a burst every thread takes the
lock once, after that line.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from functools import partial
from typing import Any

import grpc
import redis

from labs.bench.locks.rpc import LockRpc
from lock import Client, CohortMutex, Election, LockError, Mutex, Session, aio, connect

PATIENCE_S = 120.0
TASKS = "asyncio"  # a candidate without threads: aio.Mutex
SESSIONS = {"sessions": 1, "two tickets each": 2, "election": 1}  # how many tickets each session has
BURSTS = ("burst", *SESSIONS)  # one turn each
Enter = Callable[[], AbstractContextManager[Any]]


def candidate_lock(candidate: str, etcd: str, redis_url: str, name: str, threads: int, stack: ExitStack) -> Enter:
    """What enters the lock that is measured; all that are not named here are our Mutex."""
    if candidate == "redis-lock":  # with its defaults: no queue, each waiter asks ten times a second
        client = stack.enter_context(redis.Redis.from_url(redis_url, max_connections=5000))
        return lambda: client.lock(name, timeout=PATIENCE_S, blocking_timeout=PATIENCE_S)
    etcd_client = stack.enter_context(connect(etcd))
    if candidate == "lock-rpc":
        return _lock_rpc(etcd_client, stack.enter_context(closing(LockRpc(etcd))), name)
    if candidate in SESSIONS:
        return _many_sessions(candidate, etcd_client, name, threads // SESSIONS[candidate], stack)
    session = stack.enter_context(Session(etcd_client, ttl=30))
    lock = CohortMutex(session, name) if candidate == "cohort" else Mutex(session, name)
    return partial(lock.acquire, timeout=PATIENCE_S)


def _many_sessions(candidate: str, client: Client, name: str, number: int, stack: ExitStack) -> Enter:
    """Each caller has the next session."""
    sessions = itertools.cycle([stack.enter_context(Session(client, ttl=30)) for _ in range(number)])
    if candidate == "election":
        return lambda: Election(next(sessions), name).campaign("", timeout=PATIENCE_S)
    return lambda: Mutex(next(sessions), name).acquire(timeout=PATIENCE_S)


def _lock_rpc(client: Client, server: LockRpc, name: str) -> Enter:
    """The server's lock RPC, with a lease for each thread."""
    leases = threading.local()

    @contextmanager
    def enter() -> Any:
        if not hasattr(leases, "id"):
            leases.id = client.grant(int(PATIENCE_S), timeout=PATIENCE_S).id
        key = server.lock(name, leases.id, timeout=PATIENCE_S)
        yield
        server.unlock(key, timeout=PATIENCE_S)

    return enter


class Contest:
    """Those that take turns, and how many turns there were while counting was on."""

    def __init__(self) -> None:
        self._counting = threading.Event()
        self._over = threading.Event()
        self._turns = 0
        self._gate = threading.Lock()  # several may hold at once
        self._longest_s = 0.0

    def compete(self, enter: Enter) -> None:
        with suppress(LockError, redis.RedisError, grpc.RpcError, ValueError):  # closed under its feet at the end
            while not self._over.is_set():
                self._take_one(enter)

    def compete_once(self, enter: Enter) -> None:
        """Take one turn, when counting begins."""
        self._counting.wait()
        self._take_one(enter)

    def _take_one(self, enter: Enter) -> None:
        began = time.monotonic()
        with enter():
            self._note(began)

    async def compete_in_tasks(self, etcd: str, name: str, number: int) -> None:
        """Take turns in so many tasks until it is over."""

        async def compete() -> None:
            with suppress(LockError):
                while not self._over.is_set():
                    began = time.monotonic()
                    async with mutex.acquire(timeout=PATIENCE_S):
                        self._note(began)

        with connect(etcd) as client, Session(client, ttl=30) as session:
            mutex = aio.Mutex(session, name)
            await asyncio.gather(*[compete() for _ in range(number)])

    def _note(self, began: float) -> None:
        if self._counting.is_set():
            with self._gate:
                self._turns += 1
                self._longest_s = max(self._longest_s, time.monotonic() - began)

    def count(self, contestants: Sequence[threading.Thread], seconds: float | None) -> dict[str, float]:
        """Start the threads, and count from the word on standard input for so long, or until each had its turn."""
        for contestant in contestants:
            contestant.start()
        print("queued", flush=True)
        sys.stdin.readline()
        began, cpu = time.monotonic(), time.process_time()
        self._counting.set()
        if seconds is not None:
            time.sleep(seconds)
        else:
            for contestant in contestants:
                contestant.join()
        self._counting.clear()
        self._over.set()
        return {
            "turns": self._turns,
            "seconds": time.monotonic() - began,
            "cpu_seconds": time.process_time() - cpu,
            "longest_wait_s": self._longest_s,
        }


def main() -> None:
    """Compete, count, and say what was counted."""
    candidate, etcd, redis_url, name, threads, seconds = sys.argv[1:]
    contest, number = Contest(), int(threads)
    with ExitStack() as stack:
        enter = candidate_lock(candidate, etcd, redis_url, name, number, stack)
        if candidate == TASKS:
            targets = [partial(asyncio.run, contest.compete_in_tasks(etcd, name, number))]
        elif candidate in BURSTS:
            targets = [partial(contest.compete_once, enter)] * number
        else:
            targets = [partial(contest.compete, enter)] * number
        contestants = [threading.Thread(target=target, daemon=True) for target in targets]
        print(json.dumps(contest.count(contestants, None if candidate in BURSTS else float(seconds))), flush=True)


if __name__ == "__main__":
    main()
