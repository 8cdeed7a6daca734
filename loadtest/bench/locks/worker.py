"""One of the processes that compete for a lock in `make bench-lock`.

    python -m loadtest.bench.locks.worker CANDIDATE ETCD REDIS NAME THREADS SECONDS

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
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import redis

from loadtest.bench.locks.rpc import LockRpc
from lock import CohortMutex, LockError, Mutex, ReadWriteLock, Semaphore, Session, aio, connect

_PATIENCE_S = 120.0
Enter = Callable[[], AbstractContextManager[Any]]


def _session(etcd: str, stack: ExitStack) -> Session:
    return stack.enter_context(Session(stack.enter_context(connect(etcd)), ttl=30))


def strict(etcd: str, _redis: str, name: str, stack: ExitStack) -> Enter:
    """Our Mutex."""
    mutex = Mutex(_session(etcd, stack), name)
    return lambda: mutex.acquire(timeout=_PATIENCE_S)


def cohort(etcd: str, _redis: str, name: str, stack: ExitStack) -> Enter:
    """Our CohortMutex, with its defaults."""
    mutex = CohortMutex(_session(etcd, stack), name)
    return lambda: mutex.acquire(timeout=_PATIENCE_S)


def lock_rpc(etcd: str, _redis: str, name: str, stack: ExitStack) -> Enter:
    """The server's lock RPC, with a lease for each thread."""
    client, server = stack.enter_context(connect(etcd)), LockRpc(etcd)
    stack.callback(server.close)
    leases = threading.local()

    @contextmanager
    def enter() -> Any:
        if not hasattr(leases, "id"):
            leases.id = client.grant(int(_PATIENCE_S), timeout=_PATIENCE_S).id
        key = server.lock(name, leases.id, timeout=_PATIENCE_S)
        yield
        server.unlock(key, timeout=_PATIENCE_S)

    return enter


def redis_lock(_etcd: str, redis_url: str, name: str, stack: ExitStack) -> Enter:
    """redis-py's Lock with its defaults: no queue, each waiter asks ten times a second."""
    client = stack.enter_context(redis.Redis.from_url(redis_url, max_connections=5000))
    return lambda: client.lock(name, timeout=_PATIENCE_S, blocking_timeout=_PATIENCE_S)


def semaphore(etcd: str, _redis: str, name: str, stack: ExitStack) -> Enter:
    """Our Semaphore with five permits."""
    permits = Semaphore(_session(etcd, stack), name, 5)
    return lambda: permits.acquire(timeout=_PATIENCE_S)


def read_write(etcd: str, _redis: str, name: str, stack: ExitStack) -> Enter:
    """Our ReadWriteLock: nine of ten read."""
    lock, number = ReadWriteLock(_session(etcd, stack), name), itertools.count()
    return lambda: (lock.read if next(number) % 10 else lock.write).acquire(timeout=_PATIENCE_S)


CANDIDATES = {
    "strict": strict,
    "history": strict,  # on a prefix with 200,000 deleted keys
    "cohort": cohort,
    "semaphore": semaphore,
    "read-write": read_write,
    "lock-rpc": lock_rpc,
    "redis-lock": redis_lock,
}
TASKS = "asyncio"  # a candidate without threads: aio.Mutex
BURST = "burst"  # one turn each


class Contest:
    """Threads that take turns, and how many turns there were while counting was on."""

    def __init__(self, enter: Enter) -> None:
        self._enter = enter
        self._counting = threading.Event()
        self._over = threading.Event()
        self._turns = 0
        self._gate = threading.Lock()  # several may hold at once
        self._longest_s = 0.0

    def compete(self) -> None:
        """Take turns until it is over."""
        with suppress(LockError, redis.RedisError, ValueError):  # closed under its feet at the end
            while not self._over.is_set():
                began = time.monotonic()
                with self._enter():
                    self._note(began)

    def take_one(self) -> None:
        """Take one turn, when counting begins."""
        self._counting.wait()
        began = time.monotonic()
        with self._enter():
            self._note(began)

    async def compete_in_tasks(self, etcd: str, name: str, number: int) -> None:
        """Take turns in so many tasks until it is over."""
        with connect(etcd) as client, Session(client, ttl=30) as session:
            mutex = aio.Mutex(session, name)
            await asyncio.gather(*[self._compete_in_a_task(mutex) for _ in range(number)])

    async def _compete_in_a_task(self, mutex: aio.Mutex) -> None:
        with suppress(LockError):
            while not self._over.is_set():
                began = time.monotonic()
                async with mutex.acquire(timeout=_PATIENCE_S):
                    self._note(began)

    def _note(self, began: float) -> None:
        if self._counting.is_set():
            with self._gate:
                self._turns += 1
                self._longest_s = max(self._longest_s, time.monotonic() - began)

    def count(self, wait: Callable[[], None]) -> dict[str, float]:
        """Turns until `wait` returns, its seconds, and CPU seconds of this process."""
        began, cpu = time.monotonic(), time.process_time()
        self._counting.set()
        wait()
        self._counting.clear()
        self._over.set()
        return {
            "turns": self._turns,
            "seconds": time.monotonic() - began,
            "cpu_seconds": time.process_time() - cpu,
            "longest_wait_s": self._longest_s,
        }


def _join(contestants: Sequence[threading.Thread]) -> None:
    for contestant in contestants:
        contestant.join()


def main() -> None:
    """Compete, count, and say what was counted."""
    candidate, etcd, redis_url, name, threads, seconds = sys.argv[1:]
    with ExitStack() as stack:
        contest = Contest(CANDIDATES.get(candidate, strict)(etcd, redis_url, name, stack))
        if candidate == TASKS:
            tasks = contest.compete_in_tasks(etcd, name, int(threads))
            contestants = [threading.Thread(target=asyncio.run, args=(tasks,), daemon=True)]
        else:
            turns = contest.take_one if candidate == BURST else contest.compete
            contestants = [threading.Thread(target=turns, daemon=True) for _ in range(int(threads))]
        for contestant in contestants:
            contestant.start()
        print("queued", flush=True)
        sys.stdin.readline()
        wait = partial(_join, contestants) if candidate == BURST else partial(time.sleep, float(seconds))
        print(json.dumps(contest.count(wait)), flush=True)


if __name__ == "__main__":
    main()
