"""The sale in Redis, read repeatedly: counters, and the orders that are new.

One reading shows one moment, unless its slots are on several nodes. A reset keeps the last sale, so the last orders of
a run are counted even if the next run follows at once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from app.contract.keys import DEFAULT_ITEM
from app.contract.orders import Order
from app.sales.redis_client import Client
from app.sales.refusals import SaleLost
from app.sales.slots import Slot
from app.sales.snapshot import SlotReading, Snapshot, read_slots

MOST_NEW = 5000  # orders that one reading brings of each slot; the next one brings the rest
_PATIENCE_S = (0.02, 0.05)


@dataclass(frozen=True)
class LedgerReading:
    """The sale at one moment.

    Attributes:
        generation: changes with every reset.
        new: orders since the last reading, or all of them if the generation is new.
        ended: the end of the sale of the last reading, if a reset has ended it since; None if that is unknown.
    """

    generation: str
    snapshot: Snapshot
    new: list[Order] = field(default_factory=list)
    ended: LedgerReading | None = None


class LedgerReader:
    """Reads one sale, and changes nothing. Not thread-safe."""

    def __init__(self, client: Client, sale: str, *, shards: int = 4) -> None:
        self._slots = Slot.all_of(client, sale, DEFAULT_ITEM, shards)
        self._generation: str | None = None
        self._read = [0] * len(self._slots)  # orders that were read, of each slot

    def read(self) -> LedgerReading | None:
        """The sale; None if it was never opened. Raises `redis.RedisError` or `SaleLost`."""
        readings, ended = self._slots_now(), None
        if readings[0].generation != self._generation:
            ended = self._ended(self._generation) if self._generation else None
            self._read = [0] * len(self._slots)
            readings = self._slots_now()
        self._generation = readings[0].generation or None
        if self._generation is None:
            return None
        self._read = [read + len(each.entries) for read, each in zip(self._read, readings, strict=True)]
        new = _in_order(entry for each in readings for entry in each.entries)
        return LedgerReading(self._generation, Snapshot.of(readings), new, ended)

    def _slots_now(self) -> list[SlotReading]:
        for patience_s in (*_PATIENCE_S, 0):
            readings = read_slots(self._slots, [(read, read + MOST_NEW - 1) for read in self._read])
            if len({each.generation for each in readings}) == 1:
                return readings
            time.sleep(patience_s)  # a reset writes one slot after the other
        raise SaleLost

    def _ended(self, generation: str) -> LedgerReading | None:
        """What a generation came to, from where the reset has put it; None if it has kept another."""
        kept, orders, rest = Counter[str](), 0, list[str]()
        for slot, read in zip(self._slots, self._read, strict=True):
            with slot.client.pipeline(transaction=True) as pipe:
                pipe.hgetall(slot.keys.previous)
                pipe.llen(slot.keys.previous_orders)
                pipe.lrange(slot.keys.previous_orders, read, -1)
                previous, count, entries = pipe.execute()
            if previous.get("generation") == generation:
                kept.update({name: int(previous[name]) for name in ("initial", "stock", "lucky")})
                orders, rest = orders + count, rest + entries
            elif slot is self._slots[0]:
                return None
        snapshot = Snapshot(kept["initial"], kept["stock"], kept["lucky"], orders)
        return LedgerReading(generation, snapshot, _in_order(rest))


def _in_order(entries: Iterable[str]) -> list[Order]:
    """Orders of several ledgers as they were written."""
    return sorted(map(Order.decode, entries), key=lambda order: order.at_ms)
