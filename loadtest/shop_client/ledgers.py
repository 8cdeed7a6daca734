"""All ledgers of a sale as they stand in Redis: that of its treasury and those of its shards.

An item is in one of three places: in a stock, in a ledger, or on its way from one stock to another. Then it is in the
journal of the slot that it has left, and its id not yet among those that were credited.

The shop reads the same keys with its own code: the judge and the witness share nothing but names and sums.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.exceptions import RedisClusterException
from redis.retry import Retry

from app.contract.keys import Keys, slot_names
from loadtest.results.entry import Entry

UNREADABLE = (redis.RedisError, RedisClusterException, ValueError)  # the last of a value that is not the shop's


def connect(url: str, timeout: float) -> Any:
    """A client of the Redis at `url`, or of the cluster; `timeout` in seconds. Raises one of UNREADABLE."""
    limits: dict[str, Any] = {"decode_responses": True, "socket_timeout": timeout, "socket_connect_timeout": timeout}
    scheme, is_cluster, rest = url.partition("+cluster://")
    if not is_cluster:
        return redis.Redis.from_url(url, **limits)
    place, _, options = rest.partition("?")
    login, at, nodes = place.rpartition("@")
    first, *others = nodes.split(",")
    seeds = [ClusterNode(*node.rsplit(":", 1)) for node in others]  # type: ignore[no-untyped-call]
    url = f"{scheme}://{login}{at}{first}?{options}"  # which says how to log in, and its TLS
    return redis.RedisCluster.from_url(url, startup_nodes=seeds, retry=Retry(NoBackoff(), 1), **limits)


class _Slot(NamedTuple):
    """What stands in the treasury or a shard at one moment; `orders` of the `ledger` as Redis answered."""

    ledger: str
    orders: Any
    stock: str | None
    generation: str | None
    transfers: dict[str, str]
    credited: set[str]

    @property
    def left(self) -> int:
        return int(self.stock or 0)


@dataclass(frozen=True)
class Reading:
    """A sale; of one moment if nothing is sold meanwhile, for each slot is read by itself.

    Attributes:
        generation: None where there is no sale.
        left: items in all stocks, and on their way.
        in_transit: those of them that are on their way.
        orders: how many there are in all ledgers.
        entries: the orders in each ledger as they were written, where they were asked for.
    """

    generation: str | None
    left: int
    in_transit: int
    orders: int
    entries: Sequence[Entry] = ()

    @classmethod
    def of(cls, slots: Sequence[_Slot], *, whole: bool) -> Reading:
        arrived = set[str]().union(*(slot.credited for slot in slots))
        pending = {id: note for slot in slots for id, note in slot.transfers.items() if id not in arrived}
        in_transit = sum(int(note.split()[1]) for note in pending.values())
        entries = [Entry.read(entry, slot.ledger) for slot in slots for entry in slot.orders] if whole else []
        return cls(
            generation=slots[0].generation if slots[0].stock is not None else None,
            left=sum(slot.left for slot in slots) + in_transit,
            in_transit=in_transit,
            orders=len(entries) if whole else sum(slot.orders for slot in slots),
            entries=entries,
        )


class Ledgers:
    """Reads a sale, one round trip for each of its slots.

    Args:
        url: where its ledgers are.
        sale: its id.
        timeout: seconds that an answer may take.
        shards: how many it has; None: FLASHSALE_SHARDS.
    """

    def __init__(self, url: str, sale: str, *, timeout: float, shards: int | None = None) -> None:
        self._url, self._timeout = url, timeout
        count = int(os.environ.get("FLASHSALE_SHARDS") or 4) if shards is None else shards
        self._keys = [Keys(name) for name in slot_names(sale, count)]

    @cached_property
    def client(self) -> Any:
        """Of Redis; made when first needed, for a cluster is asked for its nodes then."""
        return connect(self._url, self._timeout)

    def close(self) -> None:
        """Close the connections; the next reading opens new ones."""
        if client := self.__dict__.pop("client", None):
            client.close()

    def read(self, *, whole: bool = False) -> Reading:
        """How it stands, with the orders if `whole`; raises one of UNREADABLE."""
        try:
            return Reading.of([self._slot(keys, whole) for keys in self._keys], whole=whole)
        except UNREADABLE:
            self.close()  # another node may have taken over, of which redis-py does not ask in a transaction
            raise

    def _slot(self, keys: Keys, whole: bool) -> _Slot:
        with self.client.pipeline(transaction=True) as pipe:
            if whole:
                pipe.lrange(keys.orders, 0, -1)
            else:
                pipe.llen(keys.orders)
            for key in (keys.stock, keys.generation):
                pipe.get(key)
            pipe.hgetall(keys.transfers)
            pipe.smembers(keys.credited)
            return _Slot(keys.orders, *pipe.execute())
