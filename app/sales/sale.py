"""One sale in Redis: opened, closed, reset and reported.

A sale is reset and opened by Redis's clock: those of the instances may be wrong. A purchase belongs to the sale in
which it was clicked: one that was waiting while the sale was reset is refused, as its buyer may have left long ago.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import redis

from app.contract.keys import CLOSED, DEFAULT_ITEM
from app.sales.opening import Opened, OpeningRecord
from app.sales.redis_client import LUA, Client, Script
from app.sales.refusals import BeingReset, NotOpen, RecordLost, SaleLost, again
from app.sales.slots import Slot
from app.sales.snapshot import Snapshot, read_slots
from lock import EtcdError

RESET, NEXT_GENERATION = Script(LUA / "reset.lua"), Script(LUA / "next_generation.lua")
_PATIENCE_S = (0.02, 0.1)
_CLOSED_S = 0.5  # for so long etcd is not asked again whether a sale is closed that is closed in Redis
_RESET_S = 2.0  # what a reset may take from the record in etcd to the last slot in Redis


class Closed(NamedTuple):
    """A closed sale, when etcd was asked, and when it opens, in seconds of `time.monotonic`; None without a time."""

    opened: Opened
    asked: float
    opens_at: float | None

    def refusal(self) -> NotOpen:
        """The error for a purchase that comes now."""
        return NotOpen(self.opened, None if self.opens_at is None else max(self.opens_at - time.monotonic(), 0.0))


class Sale:
    """Opens, resets and reports one sale; knows which generation this process sells. Thread-safe.

    Its items are named "1", "2" and so on. Until a reset there are `stock` pieces of each.

    Attributes:
        client: of the treasury.
        generation: what a purchase expects in Redis; empty if it is not known yet.
        closed: the sale that opens later; None if it was open when this process last asked etcd.
        begun_at: when this generation began at the earliest, in seconds of `time.monotonic`, if there was one before.
        slots_of: the treasury and the shards of each item, in the order of the items.
        places: the same slots in other groups: the treasuries of all items, their first shards, and so on.
        keys_of: the Redis keys of each item's treasury; `keys` are those of the default item.
    """

    def __init__(
        self, client: Client, sale: str, *, record: OpeningRecord, stock: int, items: int = 1, shards: int = 4
    ) -> None:
        self.client = client.for_tag(sale)
        self.slots_of = {item: Slot.all_of(client, sale, item, shards) for item in map(str, range(1, items + 1))}
        self.places = list(zip(*self.slots_of.values(), strict=True))
        self.keys_of = {item: treasury.keys for item, (treasury, *_) in self.slots_of.items()}
        self.keys = self.keys_of[DEFAULT_ITEM]
        self.record = record
        self._stock = stock
        self.generation = ""
        self.closed: Closed | None = None
        self.begun_at = -math.inf
        self._lost: dict[str, str] = {}  # what Redis has, by key, instead of the generation that etcd knows
        self._outage: tuple[float, Exception] | None = None  # the last time etcd or Redis failed, and the error
        self._lock = threading.Lock()

    def reconcile(self, item: str, found: str, slot: Slot | None = None) -> None:
        """Ask etcd, because `slot` (by default the treasury) has the generation `found` (or none: empty) and not ours.

        Opens the sale if it never was. Concurrent threads share one answer. The caller tries again when this returns.

        Raises:
            NotOpen: the sale opens later.
            SaleLost: Redis does not have what was opened last; `BeingReset`: not yet.
            RecordLost: etcd does not know what was opened.
            EtcdError, redis.RedisError: etcd cannot tell what was opened, or the treasury what is there.
        """
        came, k = time.monotonic(), slot.keys if slot else self.keys_of[item]
        with self._lock:
            if self._lost.get(k.generation) == found:
                raise SaleLost
            if found and self.generation == found:
                return
            closed = self.closed
            if closed and closed.opened.generation == found and time.monotonic() < closed.asked + _CLOSED_S:
                raise closed.refusal()
            if self._outage and self._outage[0] >= came:
                raise again(self._outage[1])
            try:
                opened = self.record.read()
                if opened is None and self.generation:
                    raise RecordLost  # do not open it twice
                opened = opened or self._open_first()
                stands = self._follows(item, opened, slot)
                if not stands and found and self._seconds_since(opened.generation) < _RESET_S:
                    raise BeingReset
                if not stands:
                    self._lost[k.generation] = found
                    raise SaleLost
                if stands == opened.opening.generation:  # the leader may have died before it told etcd
                    opened = self.confirm(opened)
                self._note(opened)
            except (EtcdError, redis.RedisError) as error:
                self._outage = time.monotonic(), error
                raise
            if self.closed:
                raise self.closed.refusal()

    def now_s(self) -> float:
        """Redis's clock, in seconds since the epoch."""
        told: Any = self.client.time()
        return float(told[0] + told[1] / 1e6)

    def _seconds_since(self, generation: str) -> float:
        """How long ago a generation began, which is the time of its reset in microseconds; infinite if it is not."""
        since = self.now_s() - int(generation) / 1e6
        return since if since >= 0 else math.inf

    def confirm(self, done: Opened) -> Opened:
        """Tell etcd that this closed sale is open in Redis, unless it was scheduled again; return what etcd has.

        It can be sold only after this: before, no purchase knows the generation.
        """
        return self.record.update(lambda before: before if before and before != done else done.opening)

    def note_closed(self, opened: Opened) -> None:
        """Remember that it is closed, unless it was opened since: its buyers need not wait for a lock."""
        with self._lock:
            if not opened.is_open and int(opened.generation) > int(self.generation or 0):
                self._note(opened)

    def _note(self, opened: Opened) -> None:
        """Remember what to expect in Redis; with the lock held."""
        asked = time.monotonic()  # before Redis's clock is, so that what begins later is never taken for earlier
        if opened.is_open:
            if self.generation not in ("", opened.generation):
                self.begun_at = asked - self._seconds_since(opened.generation)
            self.generation, self.closed = opened.generation, None
        else:
            opens_at = None if opened.opens_at_ms is None else asked + opened.opens_at_ms / 1000 - self.now_s()
            self.closed = Closed(opened, asked, opens_at)

    def _open_first(self) -> Opened:
        """Open a sale that never was, or adopt what Redis has; of several openings, the treasury decides which."""
        treasuries, *shards = self.places
        begun, *_ = self._write(treasuries, Opened(self._generation_after(None), self._stock), "if none")
        for slots in shards:
            self._write(slots, begun, "if none")
        return self.record.update(lambda before: before or begun)

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

    def begin(self, make: Callable[[Opened | None], Opened]) -> None:
        """Open or close the sale as `make` says, under a new generation; see `reset`."""

        def begin(before: Opened | None) -> Opened:
            return make(before)._replace(generation=self._generation_after(before))

        opened = None
        while opened is None:
            opened = self.record.update(begin)
            for slots in reversed(self.places):  # the treasury last: nothing leaves it for a shard of before
                begun = {each.generation for each in self._write(slots, opened, "always")}
            # Redis may have a later generation, of another reset; or of a first opening, of which etcd was not told.
            if begun != {opened.generation}:
                later = self.record.read()
                opened = later if later and begun == {later.generation} else None
        with self._lock:
            self._note(opened)

    def check(self) -> None:
        """Raise what would refuse each purchase: `SaleLost`, `RecordLost`, or what cannot be reached."""
        self.snapshot()
        opened, revision = self.record.look()
        fence = str(self.client.get(self.keys.fence) or "0").partition(".")[0]
        if opened is None or int(fence) > revision:
            raise RecordLost

    def _generation_after(self, before: Opened | None) -> str:
        """One that was never there; every slot is asked, so a reset that one must refuse changes nothing in etcd."""
        known = "0" if before is None else (before if before.is_open else before.opening).generation

        def ask(slots: Sequence[Slot]) -> str:
            keys = [slots[0].keys.nothing, *(slot.keys.generation for slot in slots)]
            return str(NEXT_GENERATION.run(slots[0].client, keys, [known]))

        return max(map(ask, self.places), key=int)

    def _write(self, slots: Sequence[Slot], opened: Opened, when: Literal["always", "if none"]) -> list[Opened]:
        """Open all items in one of `places`, in one step; what is open there afterwards. Shards are empty at first."""
        items = opened.stock if slots is self.places[0] else 0
        asked: list[str | int] = [items, opened.generation, when, items if opened.is_open else CLOSED]
        answers = RESET.run_together(slots[0].client, [(slot.keys.counters(), asked) for slot in slots])
        return [_begun(opened, *answer) for answer in answers]

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
                if not reading.generation or reading.generation != self.generation
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


def _begun(wanted: Opened, generation: str, initial: str, stock: str) -> Opened:
    """What Redis has, with the time of the opening, which only `wanted` knows."""
    opens_at_ms = wanted.opens_at_ms if generation == wanted.generation else None
    return Opened(generation, int(initial), stock != CLOSED, opens_at_ms)
