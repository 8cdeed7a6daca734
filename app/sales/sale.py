"""One sale in Redis: opened, closed, reset and reported."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

import redis

from app.sales.opening import Opened, OpeningRecord, Openings
from app.sales.purchase import DEFAULT_ITEM
from app.sales.redis_client import client_for
from app.sales.refusals import NotOpen, SaleLost, again
from app.sales.scripts import Call, run, run_together
from app.sales.slots import Keys, Slot
from app.sales.snapshot import Snapshot, read_slots
from lock import EtcdError

_PATIENCE_S = (0.02, 0.1)
_CLOSED_S = 0.5  # for so long etcd is not asked again whether a sale is closed that is closed in Redis


class Sale:
    """Opens, resets and reports one sale; knows which generation of each item this process sells. Thread-safe.

    Args:
        client: see `app.sales.redis_client`.
        sale: its id.
        record: the opening as etcd knows it.
        stock: initial pieces of each item, until a reset.
        items: number of items; their names are "1", "2" and so on.
        shards: number of shards that the stock of an item may be divided into.

    Attributes:
        client: of the treasury.
        slots_of: the treasury and the shards of each item, in the order of the items.
        keys_of: the Redis keys of each item's treasury.
    """

    def __init__(
        self, client: redis.Redis, sale: str, *, record: OpeningRecord, stock: int, items: int = 1, shards: int = 4
    ) -> None:
        self.client = client_for(client, sale)
        self.slots_of = {item: Slot.all_of(client, sale, item, shards) for item in map(str, range(1, items + 1))}
        self.keys_of = {item: treasury.keys for item, (treasury, *_) in self.slots_of.items()}
        self.record = record
        self._stock = stock
        self._known: dict[str, str] = {}
        self._closed: dict[str, tuple[float, Opened]] = {}  # items that open later, and when etcd was asked
        self._lost: dict[str, str] = {}  # what Redis has, by key, instead of the generation that etcd knows
        self._outage: tuple[float, Exception] | None = None  # the last time etcd or Redis failed, and the error
        self._lock = threading.Lock()

    @property
    def keys(self) -> Keys:
        """The keys of the default item."""
        return self.keys_of[DEFAULT_ITEM]

    def generation(self, item: str) -> str:
        """The generation that a purchase of `item` expects in Redis; empty if it is not known yet."""
        return self._known.get(item, "")

    def may_be_closed(self, item: str) -> bool:
        """Whether the item was closed when this process last asked etcd."""
        return item in self._closed

    def reconcile(self, item: str, found: str, slot: Slot | None = None) -> None:
        """Ask etcd, because `slot` (by default the treasury) has the generation `found` (or none: empty) and not ours.

        Opens the sale if it never was. Concurrent threads share one answer. The caller tries again when this returns.

        Raises:
            NotOpen: the sale opens later.
            SaleLost: Redis does not have what was opened last.
            EtcdError, redis.RedisError: etcd cannot tell what was opened, or the treasury what is there.
        """
        came, k = time.monotonic(), slot.keys if slot else self.keys_of[item]
        with self._lock:
            if self._lost.get(k.generation) == found:
                raise SaleLost
            if found and self._known.get(item) == found:
                return
            self._check_closed(item, found)
            if self._outage and self._outage[0] >= came:
                raise again(self._outage[1])
            try:
                openings = self.record.read()
                if not openings and item not in self._known:  # or else etcd was wiped: do not open it twice
                    openings = self._open_first()
                stands = self._follows(item, openings[item], slot) if item in openings else ""
                if not stands:
                    self._lost[k.generation] = found
                    raise SaleLost
                if stands == openings[item].opening.generation:  # the leader may have died before it told etcd
                    openings = self.confirm({item: openings[item]})
            except (EtcdError, redis.RedisError) as error:
                self._outage = time.monotonic(), error
                raise
            self._note(openings)
            if not openings[item].is_open:
                raise NotOpen(openings[item])

    def _check_closed(self, item: str, found: str) -> None:
        """Raise `NotOpen` if Redis still has the closed sale that etcd had a moment ago."""
        asked, opened = self._closed.get(item, (0.0, None))
        if opened and opened.generation == found and time.monotonic() < asked + _CLOSED_S:
            raise NotOpen(opened)

    def confirm(self, done: Openings) -> Openings:
        """Tell etcd that these closed items are open in Redis, unless they were scheduled again; return what etcd has.

        They can be sold only after this: before, no purchase knows the generation.
        """
        return self.record.update(
            lambda before: {item: each.opening for item, each in done.items() if before.get(item) == each}
        )

    def note_closed(self, openings: Openings) -> None:
        """Remember those items that are closed and were not opened since: their buyers need not wait for a lock."""
        with self._lock:
            for item, opened in openings.items():
                if not opened.is_open and int(opened.generation) > int(self._known.get(item, 0)):
                    self._note({item: opened})

    def _note(self, openings: Openings) -> None:
        """Remember what to expect in Redis; with the lock held."""
        for item, opened in openings.items():
            if opened.is_open:
                self._known[item] = opened.generation
                self._closed.pop(item, None)
            else:
                self._closed[item] = time.monotonic(), opened

    def _open_first(self) -> Openings:
        """Open a sale that never was, or adopt what Redis has."""
        opened = Opened(self._generation_after({}), self._stock)
        begun = self._write_openings(dict.fromkeys(self.keys_of, opened), "if none")
        return self.record.update(lambda before: {**begun, **before})

    def _follows(self, item: str, opened: Opened, slot: Slot | None) -> str:
        """The generation in Redis, if it is that of `opened` or of its scheduled opening; or else empty.

        A reset writes to etcd first, so Redis has a moment to follow. A shard is opened before the treasury, which
        decides.
        """
        treasury, sold = self.slots_of[item][0], opened if opened.is_open else opened.opening
        for patience_s in (0, *_PATIENCE_S):
            time.sleep(patience_s)
            found = _in_redis(treasury)
            if found == sold.generation and (slot is None or _in_redis(slot) == found):
                return found
            if found == opened.generation and not opened.is_open:
                return found
        return ""

    def reset(self, stock: int | None = None) -> None:
        """Begin again with `stock` pieces of each item, empty ledgers and a new generation.

        Raises:
            EtcdError: nothing is reset.
        """
        self.begin(lambda _: Opened("", self._stock if stock is None else stock))

    def begin(self, make: Callable[[Openings], Opened]) -> None:
        """Open or close each item as `make` says, under a new generation; see `reset`."""

        def begin(before: Openings) -> Openings:
            return dict.fromkeys(self.keys_of, make(before)._replace(generation=self._generation_after(before)))

        while True:
            openings = self.record.update(begin)
            begun = self._write_openings({item: openings[item] for item in self.keys_of}, "always")
            # Redis may have a later generation, of another reset; or of a first opening, of which etcd was not told.
            if _agree(begun, openings) or _agree(begun, self.record.read()):
                break
        with self._lock:
            self._note(begun)

    def _generation_after(self, openings: Openings) -> str:
        """One that was never there; every slot is asked, so a reset that one must refuse changes nothing in etcd."""
        known = [(each if each.is_open else each.opening).generation for each in openings.values()]
        last = max(known, key=int, default="0")

        def ask(slots: Sequence[Slot]) -> str:
            keys = [slots[0].keys.nothing, *(slot.keys.generation for slot in slots)]
            return str(run(slots[0].client, "next_generation", keys, [last]))

        return max(map(ask, zip(*self.slots_of.values(), strict=True)), key=int)

    def _write_openings(self, openings: Openings, when: Literal["always", "if none"]) -> Openings:
        """Open items in Redis, each slot in one step; what is open there afterwards.

        A reset writes the treasury last, so that nothing leaves the new one for a shard of the sale before. A first
        opening writes it first: of several it decides which one the shards follow.
        """
        if when == "always":
            self._write_shards(openings, when)
        begun = self._write(0, openings, when)
        if when == "if none":
            self._write_shards(begun, when)
        return begun

    def _write_shards(self, openings: Openings, when: str) -> None:
        """The same in the shards, which are empty at first."""
        empty = {item: opened._replace(stock=0) for item, opened in openings.items()}
        for place in range(1, len(self.slots_of[DEFAULT_ITEM])):
            self._write(place, empty, when)

    def _write(self, place: int, openings: Openings, when: str) -> Openings:
        """The same in the slots that have this place in `slots_of`."""
        calls = list[Call]()
        for item, opened in openings.items():
            closed = [] if opened.is_open else ["closed"]
            counters = self.slots_of[item][place].keys.counters()
            calls.append((counters, [opened.stock, opened.generation, when, *closed]))
        answers = run_together(self.slots_of[DEFAULT_ITEM][place].client, "reset", calls)
        return {item: _begun(opened, *answer) for (item, opened), answer in zip(openings.items(), answers, strict=True)}

    def snapshot(self, item: str = DEFAULT_ITEM) -> Snapshot:
        """An item's counters and ledgers; opens the sale if it never was.

        Of a sale that opens later, it is what it will begin with. Raises as `reconcile`, but for `NotOpen`.
        """
        slots = self.slots_of[item]
        while True:
            readings = read_slots(slots)
            strange = [
                (reading.generation, slot)
                for slot, reading in zip(slots, readings, strict=True)
                if not reading.generation or reading.generation != self.generation(item)
            ]
            if not strange:
                return Snapshot.of(readings)
            try:
                self.reconcile(item, *strange[0])
            except NotOpen as error:
                return Snapshot(initial=error.opened.stock, stock=error.opened.stock, lucky=0, orders=0)


def _in_redis(slot: Slot) -> str:
    stock, generation = slot.client.mget(slot.keys.stock, slot.keys.generation)
    return str(generation) if stock and generation else ""


def _agree(begun: Openings, openings: Openings) -> bool:
    """Whether all items have the same generation in both."""
    return all(item in openings and openings[item].generation == each.generation for item, each in begun.items())


def _begun(wanted: Opened, generation: str, initial: str, stock: str) -> Opened:
    """What Redis has, with the time of the opening, which only `wanted` knows."""
    opens_at_ms = wanted.opens_at_ms if generation == wanted.generation else None
    return Opened(generation, int(initial), stock != "closed", opens_at_ms)
