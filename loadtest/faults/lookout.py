"""Watches a sale from outside, in etcd and in Redis themselves: what is shown live, and kept as samples."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable

import redis

from loadtest.clock import Start
from loadtest.faults.arena import SALE, Arena
from loadtest.record import Sample
from lock import EtcdError, connect

PERIOD_S = 0.1
TIMEOUT_S = 0.3
QUEUE = f"flash-sale/{SALE}/"
KEYS = f"sale:{{{SALE}}}:"


class Lookout:
    """A thread that looks ten times a second, as a context manager.

    Args:
        arena: where the sale is.
        start: the moment from which samples count.
        show: is told, in words, what is seen.

    Attributes:
        samples: what was seen.
        stock, orders: the counter and the length of the ledger, as last seen.
    """

    def __init__(self, arena: Arena, start: Start, show: Callable[[str], None]) -> None:
        self.samples: list[Sample] = []
        self.stock = self.orders = 0
        self._start = start
        self._show = show
        self._redis = redis.Redis.from_url(
            arena.redis.url, decode_responses=True, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
        )
        self._etcd = connect(arena.etcd.endpoints, timeout=TIMEOUT_S)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lookout", daemon=True)

    def __enter__(self) -> Lookout:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()
        self._etcd.close()
        self._redis.close()

    def _watch(self) -> None:
        while not self._stop.wait(PERIOD_S):
            at_ms = self._start.elapsed_ms()
            stock, orders, lock_left = self._sale()
            holder, waiters, words = self._queue(lock_left)
            self.samples.append(Sample(at_ms, stock, orders, holder, waiters))
            sale = "Redis is away" if stock is None else f"{orders} sold, {stock} left"
            self._show(f"{sale} | {words}")

    def _sale(self) -> tuple[int | None, int | None, int]:
        """Stock, orders, and the milliseconds for which the lock of guard redis-lock is still held."""
        try:
            with self._redis.pipeline() as pipe:
                pipe.get(KEYS + "stock")
                pipe.llen(KEYS + "orders")
                pipe.pttl(KEYS + "lock")
                stock, orders, left = pipe.execute()
        except redis.RedisError:
            return None, None, 0
        self.stock, self.orders = int(stock or 0), int(orders)
        return self.stock, self.orders, max(left, 0)

    def _queue(self, redis_lock_ms: int) -> tuple[str | None, int | None, str]:
        """Holder, number of waiters, and both in words."""
        if redis_lock_ms:
            return "redis-lock", None, f"Redis lock held, {redis_lock_ms / 1000:.1f} s of its life left"
        try:
            keys = self._etcd.get_prefix(QUEUE).keys
            ttl = self._etcd.time_to_live(keys[0].lease_id).ttl if keys else 0
        except EtcdError:
            return None, None, "etcd is away"
        if not keys:
            return None, 0, "nobody holds the lock"
        holder = _session(keys[0].value)
        return holder, len(keys) - 1, f"{holder} holds, lease {max(ttl, 0)} s left, {len(keys) - 1} wait"


def _session(value: bytes) -> str:
    """The name in a queue key that our library wrote."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(value)["session"])
    return "a stranger"
