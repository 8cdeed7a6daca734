"""The scheduled opening: when the sale opens, which instance leads, and when it was opened."""

from __future__ import annotations

from typing import TypedDict

import redis

from app.sales.opening import OpeningRecord
from app.sales.redis_client import client_for
from app.sales.slots import Keys
from lock import Client


class Opening(TypedDict):
    """Times in milliseconds since the epoch; None if there is no such time, or no leader."""

    opens_at_ms: int | None
    leader: str | None
    opened_at_ms: int | None


def read_opening(etcd: Client, client: redis.Redis, sale: str) -> Opening | None:
    """The last opening, or the next; None if a reset has opened the sale. Raises `LockError`, `redis.RedisError`."""
    opened = OpeningRecord(etcd, sale).read()
    if opened is None:
        return None
    if opened.is_open:
        generation, at_ms = client_for(client, sale).hmget(Keys(sale).opener, ["generation", "at_ms"])
        if at_ms is None or generation != opened.generation:
            return None
        return Opening(opens_at_ms=None, leader=None, opened_at_ms=int(at_ms))
    candidates = etcd.get_prefix(f"sale/{sale}/opener/").keys
    leader = candidates[0].value.decode(errors="replace") if candidates else None
    return Opening(opens_at_ms=opened.opens_at_ms, leader=leader, opened_at_ms=None)
