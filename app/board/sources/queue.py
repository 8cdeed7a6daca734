"""The holder of the sale's etcd mutex and those that wait for it, read without taking part in the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lock import Client, Contender

MOST_SHOWN = 24
TIMEOUT = 1.0


@dataclass(frozen=True)
class Queue:
    """The queue at one moment.

    Attributes:
        granted_s: TTL of the holder's lease; 0 if the lock is free.
        shown: the holder, then the first waiters in order.
        waiting: number of all waiters.
    """

    granted_s: int
    shown: list[Contender]
    waiting: int

    @property
    def head(self) -> tuple[str | None, int]:
        """The instance that holds, and the number of waiters."""
        return (self.shown[0].session or self.shown[0].owner if self.shown else None), self.waiting

    def as_json(self) -> dict[str, Any]:
        shown = [_contender(each) for each in self.shown]
        holder = {**shown[0], "granted_s": self.granted_s} if shown else None
        return {"holder": holder, "waiters": shown[1:], "waiting": self.waiting}


def _contender(each: Contender) -> dict[str, Any]:
    return {
        "instance": each.session,
        "owner": each.owner,
        "token": each.token,
        "queued_s": None if each.queued_s is None else round(each.queued_s, 2),
        "ttl_s": each.ttl_s,
    }


def read_queue(client: Client, name: str) -> Queue:
    """The queue for the mutex `name`; raises `lock.LockError`."""
    keys = client.get_prefix(f"{name}/", timeout=TIMEOUT).keys
    if not keys:
        return Queue(0, [], 0)
    lease = keys[0].lease_id
    left = client.time_to_live(lease, timeout=TIMEOUT) if lease else None
    holder = Contender.of(keys[0], left.ttl if left else None)
    waiters = [Contender.of(kv) for kv in keys[1:MOST_SHOWN]]
    return Queue(left.granted_ttl if left else 0, [holder, *waiters], len(keys) - 1)
