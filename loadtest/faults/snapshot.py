"""The sale at one moment, as it is seen from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lease:
    """What is left of a lease, in seconds, and of how much."""

    left_s: float
    granted_s: float


@dataclass(frozen=True)
class Participant:
    """A shop, or a session in the queue of the lock that does not sell.

    Attributes:
        state: "frozen" or "dead", empty for one that runs.
        lease: None where it has no key in the queue, so that its lease is not seen.
        holds: whether its key is the first one in etcd's queue.
        waiters: its other keys.
    """

    name: str
    state: str = ""
    lease: Lease | None = None
    holds: bool = False
    waiters: int = 0


@dataclass(frozen=True)
class Snapshot:
    """What can be seen in Redis, in etcd and of the shops at one moment.

    Attributes:
        at_ms: milliseconds since the sale began.
        stock, orders: the counter and the length of the ledger; None while Redis is out of reach.
        total: items at the beginning.
        redis_lock: what is left of the lock of guard redis-lock, None while it is free.
        participants: the shops, then other sessions in the queue.
        etcd: whether it answers.
    """

    at_ms: float
    stock: int | None
    orders: int | None
    total: int
    redis_lock: Lease | None
    participants: Sequence[Participant]
    etcd: bool

    @property
    def holder(self) -> str | None:
        """The holder of the lock; None while it is free, or where that cannot be seen."""
        if self.redis_lock:
            return "redis-lock"
        return next((participant.name for participant in self.participants if participant.holds), None)

    @property
    def waiters(self) -> int | None:
        """Keys in etcd's queue behind the first; None where that cannot be seen."""
        return (
            sum(participant.waiters for participant in self.participants) if self.etcd and not self.redis_lock else None
        )
