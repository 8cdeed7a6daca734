"""The sale in Redis, read repeatedly: counters, and the orders that are new.

One reading shows one moment. A reset keeps the last sale, so the last orders of a run are counted even if the next run
follows at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import redis

from app.contract.keys import Keys
from app.contract.orders import Order
from app.sales.snapshot import SaleSnapshot, read_item

MOST_NEW = 5000  # orders that one reading brings; the next one brings the rest


@dataclass(frozen=True)
class LedgerReading:
    """The sale at one moment.

    Attributes:
        generation: changes with every reset.
        new: orders since the last reading, or all of them if the generation is new.
        ended: the end of the sale of the last reading, if a reset has ended it since; `None` if that is unknown.
    """

    generation: str
    snapshot: SaleSnapshot
    new: list[Order] = field(default_factory=list)
    ended: LedgerReading | None = None


class LedgerReader:
    """Reads one sale, and changes nothing. Not thread-safe."""

    def __init__(self, client: redis.Redis, sale: str) -> None:
        self._client = client
        self._keys = Keys(sale)
        self._generation = ""
        self._seen = 0  # orders that were read

    def read(self) -> LedgerReading | None:
        """The sale; `None` if it was never opened. Raises `redis.RedisError` or `SaleDamaged`."""
        reading, ended = read_item(self._client, self._keys, seen=self._seen, most=MOST_NEW), None
        if reading.generation != self._generation:
            ended = self._ended(self._generation) if self._generation else None
            self._seen = 0
            reading = read_item(self._client, self._keys, most=MOST_NEW)
        self._generation = reading.generation
        if not self._generation:
            return None
        self._seen += len(reading.entries)
        return LedgerReading(self._generation, reading.snapshot, [*map(Order.decode, reading.entries)], ended)

    def _ended(self, generation: str) -> LedgerReading | None:
        """What a generation came to, from where the reset has put it; `None` if it has kept another."""
        with self._client.pipeline(transaction=True) as pipe:
            pipe.hgetall(self._keys.previous)
            pipe.llen(self._keys.previous_orders)
            pipe.lrange(self._keys.previous_orders, self._seen, -1)
            previous, orders, entries = pipe.execute()
        if previous.get("generation") != generation:
            return None
        counters = (previous[name] for name in ("initial", "stock", "lucky"))
        snapshot = SaleSnapshot.read(self._keys, counters, orders)
        return LedgerReading(generation, snapshot, [*map(Order.decode, entries)])
