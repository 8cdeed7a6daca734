"""The sale in Redis, read repeatedly: counters, and the orders that are new.

One reading shows one moment, unless its places are on several nodes. A reset keeps the last sale, so the last orders of
a run are counted even if the next run follows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import redis

from app.contract.keys import Keys
from app.contract.orders import Order
from app.contract.places import PlaceKeys
from app.sales.snapshot import ItemReader, PlaceReading, SaleSnapshot, ask_place

MOST_NEW = 5000  # orders that one reading brings of each ledger; the next one brings the rest


@dataclass(frozen=True)
class LedgerReading:
    """The sale at one moment.

    Attributes:
        generation: changes with every reset.
        new: orders since the last reading, or all of them if the generation is new.
        ended: the end of the sale of the last reading, if a reset has ended it since; None if that is unknown.
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
        self._reader = ItemReader(client, self._keys)
        self._generation = ""
        self._further: Mapping[str, PlaceKeys] = {}
        self._seen: dict[str, int] = {}  # orders that were read, by the key of their ledger

    def read(self) -> LedgerReading | None:
        """The sale; None if it was never opened. Raises `redis.RedisError` or `SaleLost`."""
        reading, ended = self._reader.read(self._seen, most=MOST_NEW), None
        if reading.generation != self._generation:
            ended = self._ended(self._generation) if self._generation else None
            self._seen = {}
            reading = self._reader.read(most=MOST_NEW)
        self._generation, self._further = reading.generation, reading.further
        if not self._generation:
            return None
        for ledger, place in reading.places.items():
            self._seen[ledger] = self._seen.get(ledger, 0) + len(place.entries)
        new = _in_order(entry for place in reading.places.values() for entry in place.entries)
        return LedgerReading(self._generation, reading.snapshot, new, ended)

    def _ended(self, generation: str) -> LedgerReading | None:
        """What a generation came to, from where the reset has put it; None if it has kept another.

        A further place may not have followed the reset yet: then all of it is still where it was.
        """
        asked: list[Keys | PlaceKeys] = [self._keys, *self._further.values()]
        with self._client.pipeline(transaction=True) as pipe:
            for keys in asked:
                seen = self._seen.get(keys.orders, 0)
                ask_place(pipe, keys, seen, -1)
                pipe.hgetall(keys.previous)
                pipe.llen(keys.previous_orders)
                pipe.lrange(keys.previous_orders, seen, -1)
            answers = iter(pipe.execute())
        places, initial = list[PlaceReading](), 0
        for keys, (*now, previous, orders, entries) in zip(asked, zip(*[answers] * 6, strict=True), strict=True):
            if previous.get("generation") == generation:
                counters = [generation, previous["stock"], previous.get("lucky"), None, None]
                places.append(PlaceReading.of(keys.stock, (counters, orders, entries)))
                initial += int(previous.get("initial", 0))
            elif (place := PlaceReading.of(keys.stock, (now[0], now[1], now[2]))).generation == generation:
                places.append(place)
            elif keys is self._keys:
                return None
        entries = [entry for place in places for entry in place.entries]
        return LedgerReading(generation, SaleSnapshot.of(initial, places), _in_order(entries))


def _in_order(entries: Iterable[str]) -> list[Order]:
    """Orders of several ledgers as they were written."""
    return sorted(map(Order.decode, entries), key=lambda order: order.at_ms)
