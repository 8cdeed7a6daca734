"""Read the state of one item: its own counters and ledger, and those of its further places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import redis
from redis.client import Pipeline

from app.contract.keys import Keys
from app.contract.places import PlaceKeys
from app.contract.verdict import Verdict, judge
from app.sales.refusals import SaleDamaged, SaleLost

_ATTEMPTS = 5
Answers = tuple[list[str | None], int, list[str]]


class PlaceReading(NamedTuple):
    """The state of a place at one moment.

    Attributes:
        stock: items there, plus items sent to other places, minus items that arrived from them.
        entries: the requested entries of its ledger.
    """

    generation: str
    stock: int
    lucky: int
    orders: int
    entries: list[str]

    @classmethod
    def of(cls, name: str, answers: Answers) -> PlaceReading:
        """From Redis's answers to `ask_place`; raises SaleDamaged with the `name` of the stock."""
        (generation, *counters), orders, entries = answers
        try:
            stock, lucky, sent, arrived = (int(each or 0) for each in counters)
        except ValueError as error:
            raise SaleDamaged(name) from error
        return cls(generation or "", stock + sent - arrived, lucky, orders, entries)


def ask_place(pipe: Pipeline, keys: Keys | PlaceKeys, first: int, last: int) -> None:
    """Queue three commands: counters, length of the ledger, and its entries from `first` to `last`."""
    moved = [keys.sent, keys.arrived] if isinstance(keys, PlaceKeys) else [keys.nothing] * 2
    pipe.mget(keys.generation, keys.stock, keys.lucky, *moved)
    pipe.llen(keys.orders)
    pipe.lrange(keys.orders, first, last)


@dataclass(frozen=True)
class SaleSnapshot:
    """The state of an item at one moment, summed over all places."""

    initial: int
    stock: int
    lucky: int
    orders: int

    @classmethod
    def of(cls, initial: int, places: Iterable[PlaceReading]) -> SaleSnapshot:
        """The sum of all places."""
        found = [*places]
        stock, lucky = sum(each.stock for each in found), sum(each.lucky for each in found)
        return cls(initial, stock, lucky, sum(each.orders for each in found))

    @property
    def adds_up(self) -> bool:
        return self.orders + self.stock == self.initial

    def judge(self, *, gave_up: int = 0, failed: int = 0) -> Verdict:
        """The verdict from ledger and counter alone.

        Args:
            gave_up: buyers who timed out while they waited for the lock.
            failed: other buyers who got neither an item nor "sold out".
        """
        wanted = self.orders + gave_up + failed
        return judge(stock=self.initial, stock_left=self.stock, sold=self.orders, wanted=wanted, gave_up=gave_up)


class ItemReading(NamedTuple):
    """A reading of an item.

    Attributes:
        generation: empty if there is no sale.
        further: the keys of the item's further places, by prefix.
        places: a reading of each place, by the key of its ledger; the sale's own place comes first.
    """

    generation: str
    initial: int
    further: Mapping[str, PlaceKeys]
    places: Mapping[str, PlaceReading]

    @property
    def snapshot(self) -> SaleSnapshot:
        return SaleSnapshot.of(self.initial, self.places.values())

    @property
    def is_whole(self) -> bool:
        """Whether all places belong to the sale's generation."""
        return all(self.places[keys.orders].generation == self.generation for keys in self.further.values())


class ItemReader:
    """Reads one item of a sale, and changes nothing. Thread-safe."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._further: Mapping[str, PlaceKeys] = {}  # places noted at the last reading, to read all in one step

    def read(self, seen: Mapping[str, int] | None = None, *, most: int = 0) -> ItemReading:
        """Read the item at one moment, unless its places are on several nodes.

        Args:
            seen: how many entries of a ledger the caller has, by the ledger's key.
            most: read at most so many further entries of each ledger.

        Raises:
            SaleLost: a place that the sale has noted has lost its data.
            SaleDamaged: a counter is not a number.
            redis.RedisError: a place cannot be read.
        """
        reading = None
        for _ in range(_ATTEMPTS):
            known = self._further
            found = self._read(known, seen or {}, most)
            self._further = found.further
            if found.further.keys() != known.keys():
                continue
            if found.is_whole:
                reading = found
            if reading and (not known or reading.snapshot.adds_up):  # items may have moved between two nodes
                break
        if reading is None:
            raise SaleLost
        return reading

    def _read(self, known: Mapping[str, PlaceKeys], seen: Mapping[str, int], most: int) -> ItemReading:
        """Read the sale's own place and the `known` ones, and the keys of all places that the sale has noted."""
        k = self._keys
        asked: list[Keys | PlaceKeys] = [k, *known.values()]
        with self._client.pipeline(transaction=True) as pipe:
            pipe.hgetall(k.places)
            pipe.mget(k.initial, k.stock)
            for keys in asked:
                first = seen.get(keys.orders, 0)
                ask_place(pipe, keys, first, first + most - 1) if most else ask_place(pipe, keys, 1, 0)
            noted, (initial, stock), *answers = pipe.execute()
        triples = zip(asked, zip(*[iter(answers)] * 3, strict=True), strict=True)
        places = {keys.orders: PlaceReading.of(keys.stock, each) for keys, each in triples}
        generation = "" if stock is None else places[k.orders].generation
        further = {prefix: PlaceKeys(prefix) for prefix, each in sorted(noted.items()) if each == generation}
        return ItemReading(generation, int(initial or 0), further, places)
