"""The sale's etcd mutex with those that wait for it, and its scheduled opening, read without taking part."""

from __future__ import annotations

from typing import Any

from app.sales.opening import OpeningRecord
from lock import Client, Contender

MOST_SHOWN = 24
TIMEOUT = 1.0
OPENER = "sale/{sale}/opener"  # the election of the leader that opens a scheduled sale


def read_queue(client: Client, name: str) -> dict[str, Any]:
    """The queue of the mutex of that name: its holder or None, the first waiters, and the number of all waiters.

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


def read_opening(client: Client, sale: str) -> dict[str, Any] | None:
    """When a closed sale opens and which instance leads, each None if not known; None if the sale is open.

    Raises:
        lock.LockError: etcd cannot be asked.
    """
    record = OpeningRecord(client, sale)
    opened = record.read()
    if opened is None or opened.is_open:
        return None
    candidates = client.get_prefix(f"{OPENER.format(sale=sale)}/").keys
    leader = candidates[0].value.decode(errors="replace") if candidates else None
    return {"opens_at_ms": opened.opens_at_ms, "leader": leader}
