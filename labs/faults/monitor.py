"""Watches a sale from outside, in etcd and in Redis themselves: what is shown live, and kept as samples."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.contract.clock import Start
from app.contract.keys import key_prefix, queue_name
from labs.faults.shops import SALE, Shop
from labs.faults.testbed import Testbed
from labs.faults.threads import TrialThreads
from loadtest.results.record import Sample
from loadtest.shop_client.ledger import UNREADABLE, Ledger
from lock import Contender, EtcdError, connect

PERIOD_S = 0.1
TIMEOUT_S = 0.3
QUEUE = f"{queue_name(SALE)}/"
REDIS_LOCK = key_prefix(SALE) + "lock"
STRANGER = "stranger"


@dataclass(frozen=True)
class HeldLease:
    """What is left of a lease, in seconds, and of how much."""

    left_s: float
    granted_s: float


@dataclass(frozen=True)
class Participant:
    """A shop, or a session in the queue of the lock that does not sell.

    Attributes:
        state: "frozen" or "dead", empty for one that runs.
        lease: `None` if it has no key in the queue, so that its lease is not seen.
        holds: whether its key is the first one in etcd's queue.
        waiters: its other keys.
    """

    name: str
    state: str = ""
    lease: HeldLease | None = None
    holds: bool = False
    waiters: int = 0


@dataclass(frozen=True)
class TrialSnapshot:
    """What can be seen in Redis, in etcd and of the shops at one moment.

    Attributes:
        at_ms: milliseconds since the sale began.
        stock, orders: the counter and the length of the ledger; `None` while Redis is out of reach.
        total: items at the beginning.
        redis_lock: what is left of the lock of guard redis-lock, `None` while it is free.
        participants: the shops, then other sessions in the queue.
        etcd: whether it answers.
    """

    at_ms: float
    stock: int | None
    orders: int | None
    total: int
    redis_lock: HeldLease | None
    participants: Sequence[Participant]
    etcd: bool

    @property
    def holder(self) -> str | None:
        """The holder of the lock; `None` while it is free, or if that cannot be seen."""
        if self.redis_lock:
            return "redis-lock"
        return next((participant.name for participant in self.participants if participant.holds), None)

    @property
    def waiters(self) -> int | None:
        """Keys in etcd's queue behind the first; `None` if that cannot be seen."""
        if self.redis_lock or not self.etcd:
            return None
        return sum(participant.waiters for participant in self.participants)

    def sample(self) -> Sample:
        """What the record keeps of it."""
        held = next((each.lease for each in self.participants if each.holds), None)
        lease = self.redis_lock or held
        return Sample(
            self.at_ms,
            self.stock,
            self.orders,
            self.holder,
            self.waiters,
            lease_s=lease.left_s if lease else None,
            granted_s=lease.granted_s if lease else None,
            frozen=[each.name for each in self.participants if each.state == "frozen"],
            dead=[each.name for each in self.participants if each.state == "dead"],
        )


class Monitor:
    """A thread that looks at a sale of `total` items ten times a second and tells `listen`, as a context manager.

    Attributes:
        samples: what was seen.
        orders: as last seen.
    """

    def __init__(
        self, testbed: Testbed, start: Start, total: int, listen: Callable[[TrialSnapshot], None], threads: TrialThreads
    ) -> None:
        self.samples: list[Sample] = []
        self.orders = 0
        self._testbed = testbed
        self._start = start
        self._total = total
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
            snapshot = self._snapshot()
            self.samples.append(snapshot.sample())
            self._listen(snapshot)

    def _snapshot(self) -> TrialSnapshot:
        at_ms = self._start.elapsed_ms()
        stock, orders, lock_ms = self._read_sale()
        redis_lock = HeldLease(lock_ms / 1000, self._testbed.setup.ttl_s) if lock_ms else None
        queue = self._read_queue()
        return TrialSnapshot(
            at_ms, stock, orders, self._total, redis_lock, self._participants(queue or []), queue is not None
        )

    def _read_sale(self) -> tuple[int | None, int | None, int]:
        """Stock, orders, and the milliseconds for which the lock of guard redis-lock is still held."""
        try:
            reading, held_ms = self._ledger.read(), int(self._ledger.client.pttl(REDIS_LOCK))
        except UNREADABLE:
            return None, None, 0
        self.orders = reading.orders
        return reading.left, reading.orders, max(held_ms, 0)

    def _read_queue(self) -> list[tuple[str, HeldLease]] | None:
        """Name and lease of each key in the queue, the holder first; `None` while etcd is unavailable."""
        try:
            keys = self._etcd.get_prefix(QUEUE).keys
            leases = {lease: self._read_lease(lease) for lease in {key.lease_id for key in keys}}
        except EtcdError:
            return None
        return [(Contender.of(key).session or STRANGER, leases[key.lease_id]) for key in keys]

    def _read_lease(self, lease: int) -> HeldLease:
        status = self._etcd.time_to_live(lease)
        return HeldLease(
            min(status.ttl + 1, status.granted_ttl), status.granted_ttl
        )  # etcd tells whole seconds, rounded down

    def _participants(self, queue: list[tuple[str, HeldLease]]) -> list[Participant]:
        holder = queue[0][0] if queue else None
        leases, keys = dict(queue), Counter(name for name, _ in queue)
        states = {shop.name: _state(shop) for shop in self._testbed.shops}
        return [
            Participant(name, states.get(name, ""), leases.get(name), name == holder, keys[name] - (name == holder))
            for name in dict.fromkeys([*states, *leases])
        ]


def _state(shop: Shop) -> str:
    return "frozen" if shop.instance.frozen else "" if shop.instance.running else "dead"
