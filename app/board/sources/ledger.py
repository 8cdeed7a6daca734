"""The sale as Redis has it, read again and again: counters, and the orders that are new.

Everything of one reading is of one moment. What a reset swept away is read from where the reset keeps it, so that the
last orders of a run are counted even if the next run follows at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import redis

from app.sales.sale import Keys, Snapshot

MOST_NEW = 5000  # orders that one reading brings; the next one brings the rest


@dataclass(frozen=True, slots=True)
class Order:
    """One entry of the ledger; `at_ms` is milliseconds since the epoch."""

    order: str
    buyer: str
    instance: str
    guard: str
    token: Any  # as app.sales.tokens writes it; None under a guard without one
    at_ms: int

    @classmethod
    def of(cls, entry: str) -> Order:
        told: dict[str, Any] = json.loads(entry)
        return cls(
            str(told["order"]),
            str(told["buyer"]),
            str(told["instance"]),
            str(told["guard"]),
            told.get("token"),
            int(told.get("at_ms") or 0),
        )


@dataclass(frozen=True)
class Ended:
    """A sale that a reset has ended: how it stood, and the orders that had not been read yet."""

    snapshot: Snapshot
    rest: list[Order]


@dataclass(frozen=True)
class Reading:
    """The sale at one moment.

    Attributes:
        generation: changes with every reset.
        new: orders since the last reading, or all of them if the generation is new.
        ended: the generation that the last reading was of, if a reset has ended it since; None where it is not known.
        redis_lock_ms: how much longer redis-py's lock lives, None if nobody holds it.
    """

    generation: str
    snapshot: Snapshot
    new: list[Order] = field(default_factory=list)
    ended: Ended | None = None
    redis_lock_ms: int | None = None


class _Found(NamedTuple):
    """The answers to one transaction."""

    counters: list[str | None]
    orders: int
    entries: list[str]
    lock_ms: int

    @property
    def generation(self) -> str | None:
        return None if None in self.counters else self.counters[3]

    @property
    def snapshot(self) -> Snapshot:
        initial, stock, lucky, _ = (int(counter or 0) for counter in self.counters)
        return Snapshot(initial=initial, stock=stock, lucky=lucky, orders=self.orders)


class LedgerReader:
    """Reads one sale; one thread uses it. Reading opens nothing and changes nothing.

    Args:
        client: see `app.sales.redis_client`.
        sale: its id.
    """

    def __init__(self, client: redis.Redis, sale: str) -> None:
        self._client = client
        self._keys = Keys(sale)
        self._generation: str | None = None
        self._read = 0

    def read(self) -> Reading | None:
        """What there is; None if the sale was never opened. Raises `redis.RedisError`."""
        found = self._transaction()
        ended = None
        if found.generation != self._generation:
            ended = self._ended()
            self._read = 0
            found = self._transaction()
        self._generation = found.generation
        if found.generation is None:
            return None
        self._read += len(found.entries)
        return Reading(
            found.generation,
            found.snapshot,
            [Order.of(entry) for entry in found.entries],
            ended,
            found.lock_ms if found.lock_ms > 0 else None,
        )

    def _transaction(self) -> _Found:
        k = self._keys
        with self._client.pipeline(transaction=True) as pipe:
            pipe.mget(k.initial, k.stock, k.lucky, k.generation)
            pipe.llen(k.orders)
            pipe.lrange(k.orders, self._read, self._read + MOST_NEW - 1)
            pipe.pttl(k.lock)
            return _Found(*pipe.execute())

    def _ended(self) -> Ended | None:
        """What the last generation came to, from where the reset has put it."""
        k = self._keys
        with self._client.pipeline(transaction=True) as pipe:
            pipe.hgetall(k.previous)
            pipe.llen(k.previous_orders)
            pipe.lrange(k.previous_orders, self._read, -1)
            kept, count, entries = pipe.execute()
        if self._generation is None or kept.get("generation") != self._generation:
            return None
        snapshot = Snapshot(
            initial=int(kept["initial"]), stock=int(kept["stock"]), lucky=int(kept["lucky"]), orders=count
        )
        return Ended(snapshot, [Order.of(entry) for entry in entries])
