"""The sale's etcd mutex with those that wait for it, read without taking part."""

from __future__ import annotations

from typing import Any

from lock import Client, Contender

MOST_SHOWN = 24
TIMEOUT = 1.0


def read_queue(client: Client, name: str) -> dict[str, Any]:
    """The queue of the mutex of that name: its holder or `None`, the first waiters, and the number of all waiters.

    Raises:
        lock.LockError: etcd cannot be asked.
    """
    keys = client.get_prefix(f"{name}/", timeout=TIMEOUT).keys
    if not keys:
        return {"holder": None, "waiters": [], "waiting": 0}
    lease = keys[0].lease_id
    left = client.time_to_live(lease, timeout=TIMEOUT) if lease else None
    holder = _contender(Contender.of(keys[0], left.ttl if left else None))
    holder["granted_s"] = left.granted_ttl if left else 0
    waiters = [_contender(Contender.of(kv)) for kv in keys[1:MOST_SHOWN]]
    return {"holder": holder, "waiters": waiters, "waiting": len(keys) - 1}


def _contender(each: Contender) -> dict[str, Any]:
    return {"instance": each.session, "owner": each.owner, "token": each.token, "ttl_s": each.ttl_s}
