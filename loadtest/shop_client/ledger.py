"""The sale as it stands in Redis: its counter and its ledger.

The shop reads the same keys with its own code: the judge and the witness share nothing but names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import redis

from app.contract.keys import Keys
from app.contract.orders import Order

UNREADABLE = (redis.RedisError, ValueError)  # the last of a value that is not the shop's


def connect(url: str, timeout: float) -> Any:
    """A client of the Redis at `url`; `timeout` in seconds. Raises ValueError."""
    return redis.Redis.from_url(url, decode_responses=True, socket_timeout=timeout, socket_connect_timeout=timeout)


@dataclass(frozen=True)
class SaleReading:
    """A sale at one moment.

    Attributes:
        generation: None if there is no sale.
        left: items in stock.
        orders: length of the ledger.
        entries: the orders as they were written, if requested.
    """

    generation: str | None
    left: int
    orders: int
    entries: Sequence[Order] = ()


class Ledger:
    """Reads a sale in one round trip.

    Args:
        url: address of its Redis.
        sale: its id.
        timeout: seconds that an answer may take.
    """

    def __init__(self, url: str, sale: str, *, timeout: float) -> None:
        self._url, self._timeout = url, timeout
        self._keys = Keys(sale)

    @cached_property
    def client(self) -> Any:
        """A client of Redis, made when first needed. Raises ValueError."""
        return connect(self._url, self._timeout)

    def close(self) -> None:
        """Close the connections; the next reading opens new ones."""
        if client := self.__dict__.pop("client", None):
            client.close()

    def read(self, *, whole: bool = False) -> SaleReading:
        """Read it, with the orders if `whole`; raises one of UNREADABLE."""
        with self.client.pipeline(transaction=True) as pipe:
            pipe.mget(self._keys.generation, self._keys.stock)
            pipe.llen(self._keys.orders)
            pipe.lrange(self._keys.orders, *((0, -1) if whole else (1, 0)))
            (generation, stock), orders, entries = pipe.execute()
        return SaleReading(
            generation=None if stock is None else generation,
            left=int(stock or 0),
            orders=orders,
            entries=[Order.decode(entry) for entry in entries],
        )
