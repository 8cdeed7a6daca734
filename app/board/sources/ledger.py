"""The sale in Redis, read repeatedly: counters, and the orders that are new.

One reading shows one moment. A reset keeps the last sale, so the last orders of a run are counted even if the next run
follows at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from typing import Any

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
        return cls(*(told[each.name] for each in fields(cls)))


@dataclass(frozen=True)
class Ended:
    """A sale that a reset has ended: its last state, and the orders that had not been read yet."""

    snapshot: Snapshot
    rest: list[Order]


@dataclass(frozen=True)
class LedgerReading:
    """The sale at one moment.

    Attributes:
        generation: changes with every reset.
        new: orders since the last reading, or all of them if the generation is new.
        ended: the sale of the last reading, if a reset has ended it since; None if that is unknown.
        redis_lock_ms: remaining life of redis-py's lock, None if it is free.
    """

    generation: str
    snapshot: Snapshot
    new: list[Order] = field(default_factory=list)
    ended: Ended | None = None
    redis_lock_ms: int | None = None


class LedgerReader:
    """Reads one sale, and changes nothing. Not thread-safe."""

    def __init__(self, client: redis.Redis, sale: str) -> None:
        self._client = client
        self._keys = Keys(sale)
        self._generation: str | None = None
        self._read = 0

    def read(self) -> LedgerReading | None:
        """The sale; None if it was never opened. Raises `redis.RedisError`."""
        reading, ended = self._transaction(), None
        if reading is None or reading.generation != self._generation:
            ended = self._ended()
            self._read = 0
            reading = self._transaction()
        self._generation = reading.generation if reading else None
        self._read += len(reading.new) if reading else 0
        return replace(reading, ended=ended) if reading else None

    def _transaction(self) -> LedgerReading | None:
        k = self._keys
        with self._client.pipeline(transaction=True) as pipe:
            pipe.mget(k.initial, k.stock, k.lucky, k.generation)
            pipe.llen(k.orders)
            pipe.lrange(k.orders, self._read, self._read + MOST_NEW - 1)
            pipe.pttl(k.lock)
            (*counters, generation), orders, entries, lock_ms = pipe.execute()
        if None in (*counters, generation):
            return None
        initial, stock, lucky = (int(counters[0] if each == "closed" else each) for each in counters)
        now = Snapshot(initial=initial, stock=stock, lucky=lucky, orders=orders)
        new = [Order.of(entry) for entry in entries]
        return LedgerReading(generation, now, new, redis_lock_ms=lock_ms if lock_ms > 0 else None)

    def _ended(self) -> Ended | None:
        """The end of the last generation, as the reset has kept it."""
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
