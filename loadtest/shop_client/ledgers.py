"""All ledgers of a sale as they stand in Redis: its own, and those of its further places.

The shop reads the same keys with its own code: the judge and the witness share nothing but names and sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import redis
from redis.exceptions import RedisClusterException

from app.contract import labs
from app.contract.keys import Keys
from app.contract.places import PlaceKeys
from loadtest.results.entry import Entry

UNREADABLE = (redis.RedisError, RedisClusterException, ValueError)  # the last of a value that is not the shop's
_ATTEMPTS = 3


class PlaceLost(redis.RedisError):
    """A place that the sale has noted does not belong to it any more."""

    def __init__(self) -> None:
        super().__init__("a part of the sale has lost its data: reset it")


def connect(url: str, timeout: float) -> Any:
    """A client of the Redis at `url`; `timeout` in seconds. Raises one of UNREADABLE.

    A lab may have another client for some addresses: `reader` in its ``redis_client.py``, which returns None for those
    that it leaves to others.
    """
    for lab in labs.modules("redis_client"):
        if client := lab.reader(url, timeout):
            return client
    return redis.Redis.from_url(url, decode_responses=True, socket_timeout=timeout, socket_connect_timeout=timeout)


class _Place(NamedTuple):
    """What a place has at one moment; `orders` of the `ledger` as Redis answered."""

    ledger: str
    orders: Any
    generation: str | None
    stock: str | None
    sent: str | None
    arrived: str | None

    @property
    def left(self) -> int:
        return int(self.stock or 0) + int(self.sent or 0) - int(self.arrived or 0)


@dataclass(frozen=True)
class SaleReading:
    """A sale; of one moment if nothing is sold meanwhile, for each place is read by itself.

    Attributes:
        generation: None where there is no sale.
        left: items in all stocks, and on their way between two places.
        orders: how many there are in all ledgers.
        entries: the orders in each ledger as they were written, where they were asked for.
    """

    generation: str | None
    left: int
    orders: int
    entries: Sequence[Entry] = ()

    @classmethod
    def of(cls, places: Sequence[_Place], *, whole: bool) -> SaleReading:
        entries = [Entry.read(entry, place.ledger) for place in places for entry in place.orders] if whole else []
        return cls(
            generation=places[0].generation if places[0].stock is not None else None,
            left=sum(place.left for place in places),
            orders=len(entries) if whole else sum(place.orders for place in places),
            entries=entries,
        )


class Ledgers:
    """Reads a sale, one round trip for each of its places.

    Args:
        url: where its ledgers are.
        sale: its id.
        timeout: seconds that an answer may take.
    """

    def __init__(self, url: str, sale: str, *, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        self._keys = Keys(sale)

    @cached_property
    def client(self) -> Any:
        """Of Redis; made when first needed, for some ask for their nodes then."""
        return connect(self._url, self._timeout)

    def close(self) -> None:
        """Close the connections; the next reading opens new ones."""
        if client := self.__dict__.pop("client", None):
            client.close()

    def read(self, *, whole: bool = False) -> SaleReading:
        """How it stands, with the orders if `whole`; raises one of UNREADABLE."""
        try:
            for _ in range(_ATTEMPTS):  # a reset may come between two places
                places = self._places(whole)
                if len({place.generation for place in places}) == 1:
                    return SaleReading.of(places, whole=whole)
            raise PlaceLost
        except UNREADABLE:
            self.close()  # another node may have taken over, of which redis-py does not ask in a transaction
            raise

    def _places(self, whole: bool) -> list[_Place]:
        """The sale's own place, and those that it has noted."""
        own = self._place(self._keys, whole)
        noted = self.client.hgetall(self._keys.places)
        further = sorted(prefix for prefix, generation in noted.items() if generation == own.generation)
        return [own, *(self._place(PlaceKeys(prefix), whole) for prefix in further)]

    def _place(self, keys: Keys | PlaceKeys, whole: bool) -> _Place:
        counters = [keys.generation, keys.stock]
        if isinstance(keys, PlaceKeys):
            counters += [keys.sent, keys.arrived]
        with self.client.pipeline(transaction=True) as pipe:
            if whole:
                pipe.lrange(keys.orders, 0, -1)
            else:
                pipe.llen(keys.orders)
            for key in counters:
                pipe.get(key)
            orders, *values = pipe.execute()
        return _Place(keys.orders, orders, *values, *[None] * (4 - len(values)))
