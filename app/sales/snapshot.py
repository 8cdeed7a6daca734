"""What lies in the slots of an item just now, read and added up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import redis

from app.contract.verdict import Verdict, judge
from app.sales.refusals import SaleDamaged
from app.sales.slots import Slot

_ATTEMPTS = 5


class SlotReading(NamedTuple):
    """What stands in a slot at one moment; see `Keys`. `entries` are those of its ledger that were asked for."""

    initial: int
    stock: int
    lucky: int
    generation: str
    orders: int
    transfers: dict[str, str]
    credited: set[str]
    entries: list[str]

    @classmethod
    def of(cls, counters: list[str | None], *found: Any) -> SlotReading:
        """From Redis's answers; the generation is empty if there is no sale."""
        initial, stock, lucky, generation = counters
        none = not stock or not generation
        return cls(int(initial or 0), int(stock or 0), int(lucky or 0), "" if none else str(generation), *found)


class ShardCount(NamedTuple):
    """What lies in a shard, and what was sold from it."""

    stock: int
    orders: int


@dataclass(frozen=True)
class Snapshot:
    """What stands in Redis at one moment, in the treasury and all shards together.

    Attributes:
        in_transit: items that have left one slot and not arrived in another.
        shards: what is theirs of it.
    """

    initial: int
    stock: int
    lucky: int
    orders: int
    in_transit: int = 0
    shards: tuple[ShardCount, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, readings: Sequence[SlotReading]) -> Snapshot:
        """The sum of what was read, of the treasury first."""
        arrived = {each for reading in readings for each in reading.credited}
        left = {each: note for reading in readings for each, note in reading.transfers.items() if each not in arrived}
        return cls(
            initial=readings[0].initial,
            stock=sum(reading.stock for reading in readings),
            lucky=sum(reading.lucky for reading in readings),
            orders=sum(reading.orders for reading in readings),
            in_transit=sum(int(note.split()[1]) for note in left.values()),
            shards=tuple(ShardCount(reading.stock, reading.orders) for reading in readings[1:]),
        )

    @property
    def unsold(self) -> int:
        """Items that are left, wherever they are."""
        return self.stock + self.in_transit

    def judge(self, *, gave_up: int = 0, failed: int = 0) -> Verdict:
        """The verdict, as far as ledger and counter show it.

        Of the buyers, `gave_up` waited for the lock until their time was over, and `failed` others were neither served
        nor told that all is sold.
        """
        wanted = self.orders + gave_up + failed
        return judge(stock=self.initial, stock_left=self.unsold, sold=self.orders, wanted=wanted, gave_up=gave_up)


def read_slots(slots: Sequence[Slot], spans: Sequence[tuple[int, int]] = ()) -> list[SlotReading]:
    """Read them: those of one Redis as of one moment, those of a cluster one after the other.

    While items move, readings of several moments may not add up, so they are repeated then. The treasury comes first.
    For each slot, `spans` has the first and last entry of its ledger to be read.
    """
    wanted = list(zip(slots, spans or [(1, 0)] * len(slots), strict=True))
    for _ in range(_ATTEMPTS):
        readings = list[SlotReading]()
        for client, there in groupby(wanted, lambda each: each[0].client):
            readings += _read(client, list(there))
        now = Snapshot.of(readings)
        if now.orders + now.unsold == now.initial or slots[0].client is slots[-1].client:
            break
    return readings


def _read(client: redis.Redis, slots: Sequence[tuple[Slot, tuple[int, int]]]) -> Iterator[SlotReading]:
    with client.pipeline(transaction=True) as pipe:
        for (_, k), span in slots:
            pipe.mget(k.initial, k.stock, k.lucky, k.generation)
            pipe.llen(k.orders)
            pipe.hgetall(k.transfers)
            pipe.smembers(k.credited)
            pipe.lrange(k.orders, *span)
        found = iter(pipe.execute())
    for ((_, k), _), each in zip(slots, zip(*[found] * 5, strict=True), strict=True):
        try:
            yield SlotReading.of(*each)
        except ValueError as error:
            raise SaleDamaged(k.stock) from error
