"""What the shop calls its data: the keys of a sale in Redis, and its lock in etcd.

The shop's own words are in `app`, which is not imported here; tests/loadtest/target/test_shops.py holds both together.
"""

from __future__ import annotations

import os

CLOSED = "closed"  # what stands for the stock of a sale that opens later


def key_prefix(sale: str) -> str:
    """What the Redis keys of a sale begin with."""
    return f"sale:{{{sale}}}:"


def slot_names(sale: str, shards: int | None = None) -> list[str]:
    """What stands in the braces for each part of a sale: the treasury, and its shards; None: FLASHSALE_SHARDS."""
    count = int(os.environ.get("FLASHSALE_SHARDS") or 4) if shards is None else shards
    return [sale, *(f"{sale}/{number}" for number in range(count))]


def queue_name(sale: str) -> str:
    """The name of a sale's mutex in etcd; the keys of its queue begin with it and a slash."""
    return f"flash-sale/{sale}"
