"""Watches a sale from outside, in etcd and in Redis themselves: what is shown live, and kept as samples."""

from __future__ import annotations

import threading
from collections.abc import Callable

from app.contract.clock import Start
from app.contract.keys import key_prefix, queue_name
from labs.faults.testbed import SALE, Testbed
from labs.faults.threads import TrialThreads
from loadtest.results.record import Sample
from loadtest.shop_client.ledger import UNREADABLE, Ledger
from lock import Contender, EtcdError, connect

PERIOD_S = 0.1
TIMEOUT_S = 0.3
QUEUE = f"{queue_name(SALE)}/"
REDIS_LOCK = key_prefix(SALE) + "lock"
STRANGER = "stranger"


class Monitor:
    """A thread that looks at a sale ten times a second and tells `listen`, as a context manager."""

    def __init__(self, testbed: Testbed, start: Start, listen: Callable[[Sample], None], threads: TrialThreads) -> None:
        self.samples: list[Sample] = []  # what was seen
        self.orders = 0  # as last seen
        self._testbed = testbed
        self._start = start
        self._listen = listen
        self._ledger = Ledger(testbed.redis.url, SALE, timeout=TIMEOUT_S)
        self._etcd = connect(testbed.etcd.endpoints, timeout=TIMEOUT_S)
        self._stop = threading.Event()
        self._threads = threads

    def __enter__(self) -> Monitor:
        self._thread = self._threads.start("monitor", self._watch)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()
        self._etcd.close()
        self._ledger.close()

    def _watch(self) -> None:
        while not self._stop.wait(PERIOD_S):
            sample = self._sample()
            self.samples.append(sample)
            self._listen(sample)

    def _sample(self) -> Sample:
        at_ms, (stock, orders, redis_lock_ms) = self._start.elapsed_ms(), self._read_sale()
        holder, waiters, lease_s, granted_s = self._read_queue()
        if redis_lock_ms:
            holder, waiters = "redis-lock", None
            lease_s, granted_s = redis_lock_ms / 1000, self._testbed.setup.ttl_s
        processes = {shop.name: shop.instance for shop in self._testbed.shops}
        frozen = [name for name, process in processes.items() if process.frozen]
        dead = [name for name, process in processes.items() if not (process.frozen or process.running)]
        return Sample(at_ms, stock, orders, holder, waiters, lease_s, granted_s, frozen, dead)

    def _read_sale(self) -> tuple[int | None, int | None, int]:
        """Stock, orders, and the milliseconds for which the lock of guard redis-lock is still held."""
        try:
            reading, held_ms = self._ledger.read(), int(self._ledger.client.pttl(REDIS_LOCK))
        except UNREADABLE:
            return None, None, 0
        self.orders = reading.orders
        return reading.left, reading.orders, max(held_ms, 0)

    def _read_queue(self) -> tuple[str | None, int | None, float | None, float | None]:
        """The holder in etcd's queue, the keys behind it, what is left of its lease, and of how much.

        All are `None` while etcd is unavailable, and but for the number of waiters while the lock is free.
        """
        try:
            keys = self._etcd.get_prefix(QUEUE).keys
            if not keys:
                return None, 0, None, None
            lease = self._etcd.time_to_live(keys[0].lease_id)
        except EtcdError:
            return None, None, None, None
        left_s = min(lease.ttl + 1, lease.granted_ttl)  # etcd tells whole seconds, rounded down
        return Contender.of(keys[0]).session or STRANGER, len(keys) - 1, left_s, lease.granted_ttl
