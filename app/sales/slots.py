"""Where the stock of a sale lies: its treasury, from which most guards sell, and the shards of `etcd-sharded`."""

from __future__ import annotations

from typing import NamedTuple

from app.contract.keys import Keys, slot_names
from app.sales.redis_client import Client


class Slot(NamedTuple):
    """The treasury or a shard of one item, and the client of the Redis that has it."""

    client: Client
    keys: Keys

    @classmethod
    def all_of(cls, client: Client, sale: str, item: str, shards: int) -> list[Slot]:
        """The treasury, and after it the shards."""
        return [cls(client.for_tag(name), Keys(name, item)) for name in slot_names(sale, shards)]
