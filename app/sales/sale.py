"""One sale in Redis: its keys, how it is opened, closed and reset, and what stands in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import redis

from app.sales.opening import Opened, OpeningRecord, Openings
from app.sales.purchase import DEFAULT_ITEM
from app.sales.refusals import NotOpen, SaleLost, again
from app.sales.scripts import Script
from lock import EtcdError

_PATIENCE_S = (0.02, 0.1)
_CLOSED_S = 0.5  # so long etcd need not be asked again whether the sale is closed that Redis says is closed


def shard_name(sale: str, number: int) -> str:
    """What stands in the braces for a shard of a sale; shards count from zero."""
    return f"{sale}/{number}"


class Keys:
    """Redis keys of one item in one slot: the treasury of a sale, or one of its shards.

    The braces keep them in one hash slot of a cluster. The treasury's are ``sale:{SALE}:stock`` and so on, those of
    item 7 ``sale:{SALE}:7:stock``. Shard 3 has the same keys under ``sale:{SALE/3}:``, see `shard_name`.

    Attributes:
        initial: items there were at the last reset.
        stock: items left, or "closed" before the opening; a read-modify-write guard without a lock loses updates here.
        lucky: items sold, counted by ``INCR``.
        orders: the ledger: a list of JSON entries ``{order, buyer, instance, guard, token, at_ms}``.
        fence: the highest fencing token that was seen.
        generation: which opening of the sale this is, see `app.sales.opening`; without it there is no sale.
        answers: a hash from Idempotency-Key to the first answer, shared by all items.
        transfers: the journal, a hash from a transfer's id to ``SHARD AMOUNT``: items that left here for that shard.
        credited: a set of the ids of transfers that have arrived here.
        previous, previous_orders: counters (a hash) and ledger of the last sale that had orders, kept by the reset.
        opener: a hash: the generation opened last by a leader, when, and the highest token that tried.
        lock: what redis-py's Lock holds.
        nothing: never exists.
    """

    def __init__(self, sale: str, item: str = DEFAULT_ITEM) -> None:
        whole = f"sale:{{{sale}}}:"
        prefix = whole if item == DEFAULT_ITEM else f"{whole}{item}:"
        self.initial = prefix + "initial"
        self.stock = prefix + "stock"
        self.lucky = prefix + "lucky"
        self.orders = prefix + "orders"
        self.fence = prefix + "fence"
        self.generation = prefix + "generation"
        self.answers = whole + "answers"
        self.transfers = prefix + "transfers"
        self.credited = prefix + "credited"
        self.previous = prefix + "previous"
        self.previous_orders = prefix + "previous-orders"
        self.opener = whole + "opener"
        self.lock = prefix + "lock"
        self.nothing = whole + "nothing"

    def counters(self) -> list[str]:
        """What a reset touches, in the order of its script."""
        counted = [self.initial, self.stock, self.lucky, self.orders, self.fence, self.generation, self.answers]
        return [*counted, self.previous, self.previous_orders]


@dataclass(frozen=True)
class Snapshot:
    """What stands in Redis at one moment."""

    initial: int
    stock: int
    lucky: int
    orders: int

    @property
    def lost_updates(self) -> int:
        """Sales missing from the counter."""
        return max(0, self.orders + self.stock - self.initial)

    @property
    def verdict(self) -> str:
        """What the ledger and the counter alone tell, whatever the buyers were told."""
        return self.judged()

    def judged(self, *, gave_up: int = 0, busy: int = 0, failed: int = 0) -> str:
        """The verdict, from the ledger: the counter alone looks right even when far too much was sold.

        tests/data/verdicts.json holds it to the load test's verdict and to the board's page.

        Args:
            gave_up: buyers who waited for the lock until their time was over.
            busy: buyers for whom an instance had no room.
            failed: other buyers who were neither served nor told that all is sold.
        """
        unsold = self.initial - self.orders
        if unsold < 0:
            return f"OVERSOLD by {-unsold}"
        undersold = max(min(unsold, gave_up + busy + failed), unsold - self.stock)
        lost = self.lost_updates
        flaws = [f"UNDERSOLD by {undersold}"] if undersold > 0 else []
        flaws += [f"{why}: {n}" for why, n in (("gave up", gave_up), ("busy", busy)) if undersold > 0 and n]
        flaws += [f"{lost} lost update{'s' if lost > 1 else ''}"] if lost else []
        return ", ".join(flaws) or "EXACT"


class Sale:
    """Opens, resets and reports one sale; knows which generation of each item this process sells. Thread-safe.

    Args:
        client: see `app.sales.redis_client`.
        sale: its id.
        record: what etcd knows of it.
        stock: pieces of each item that the sale begins with, until a reset.
        items: how many items there are; they are called "1", "2" and so on.

    Attributes:
        keys_of: the Redis keys of each item, in the order in which the items are shown.
        record: see above.
    """

    def __init__(self, client: redis.Redis, sale: str, *, record: OpeningRecord, stock: int, items: int = 1) -> None:
        self.client = client
        self.keys_of = {item: Keys(sale, item) for item in map(str, range(1, items + 1))}
        self.record = record
        self._stock = stock
        self._reset = Script(client, "reset")
        self._next_generation = Script(client, "next_generation")
        self._known: dict[str, str] = {}
        self._closed: dict[str, tuple[float, Opened]] = {}  # items that open later, and when etcd said so
        self._lost: dict[str, str] = {}  # what Redis has instead of the generation that etcd knows
        self._outage: tuple[float, Exception] | None = None  # when etcd did not answer, and what was said
        self._lock = threading.Lock()

    @property
    def keys(self) -> Keys:
        """Those of the default item."""
        return self.keys_of[DEFAULT_ITEM]

    def generation(self, item: str) -> str:
        """The generation that a purchase of `item` has to find in Redis; empty if that is not known yet."""
        return self._known.get(item, "")

    def may_be_closed(self, item: str) -> bool:
        """Whether the item was closed when this process last heard of it."""
        return item in self._closed

    def reconcile(self, item: str, found: str) -> None:
        """Ask etcd, because Redis has generation `found` (or none: empty) and not `generation`; return to try again.

        Opens the sale if it never was. Threads that come while one asks share its answer.

        Raises:
            NotOpen: the sale opens later.
            SaleLost: Redis does not have what was opened last.
            EtcdUnavailable: etcd cannot tell what was opened.
        """
        came = time.monotonic()
        with self._lock:
            if self._lost.get(item) == found:
                raise SaleLost
            if found and self._known.get(item) == found:
                return
            self._check_closed(item, found)
            if self._outage and self._outage[0] >= came:
                raise again(self._outage[1])
            try:
                openings = self.record.read()
            except EtcdError as error:
                self._outage = time.monotonic(), error
                raise
            if item not in openings and item not in self._known:  # if it is known, etcd was wiped: do not open it twice
                openings = self._open_new(openings)
            stands = self._follows(item, openings[item]) if item in openings else ""
            if not stands:
                self._lost[item] = found
                raise SaleLost
            if stands == openings[item].opening.generation:  # its leader may have died before etcd was told
                openings = self.confirm({item: openings[item]})
            self._note(openings)
            if not openings[item].is_open:
                raise NotOpen(openings[item])

    def _check_closed(self, item: str, found: str) -> None:
        """Raise `NotOpen` if Redis still has the closed sale that etcd told of a moment ago."""
        asked, opened = self._closed.get(item, (0.0, None))
        if opened and opened.generation == found and time.monotonic() < asked + _CLOSED_S:
            raise NotOpen(opened)

    def confirm(self, done: Openings) -> Openings:
        """Tell etcd that these closed items are open in Redis, unless they were scheduled again; what etcd has then.

        Only from now on may they be sold: before, no purchase knows the generation.
        """
        return self.record.update(
            lambda before: {item: each.opening for item, each in done.items() if before.get(item) == each}
        )

    def note_closed(self, openings: Openings) -> None:
        """Remember which of these items open later: their buyers need not wait for a lock to be told."""
        with self._lock:
            self._note({item: opened for item, opened in openings.items() if not opened.is_open})

    def _note(self, openings: Openings) -> None:
        """Remember what to expect in Redis; with the lock held."""
        for item, opened in openings.items():
            if opened.is_open:
                self._known[item] = opened.generation
                self._closed.pop(item, None)
            else:
                self._closed[item] = time.monotonic(), opened

    def _open_new(self, openings: Openings) -> Openings:
        """Open the items that never were, or adopt how they stand in Redis."""
        new = [item for item in self.keys_of if item not in openings]
        generation = self._generation_after(openings)
        begun = self._write_openings({item: Opened(generation, self._stock) for item in new}, "if none")
        return self.record.update(lambda before: {**begun, **before})

    def _follows(self, item: str, opened: Opened) -> str:
        """The generation in Redis, if it is that of `opened` or of the opening that is due; or else empty.

        A reset writes to etcd first, so Redis has a moment to follow.
        """
        expected = {opened.generation} if opened.is_open else {opened.generation, opened.opening.generation}
        for patience_s in (0, *_PATIENCE_S):
            time.sleep(patience_s)
            found = self._in_redis(item)
            if found in expected:
                return found
        return ""

    def _in_redis(self, item: str) -> str:
        stock, generation = self.client.mget(self.keys_of[item].stock, self.keys_of[item].generation)
        return str(generation) if stock and generation else ""

    def reset(self, stock: int | None = None) -> None:
        """Begin again with `stock` pieces of each item, empty ledgers and a new generation.

        Raises:
            EtcdUnavailable: nothing is reset.
        """
        self.begin(lambda _: Opened("", self._stock if stock is None else stock))

    def begin(self, make: Callable[[Openings], Opened]) -> None:
        """Have each item opened or closed as `make` says, under a new generation; see `reset`."""

        def begin(before: Openings) -> Openings:
            return dict.fromkeys(self.keys_of, make(before)._replace(generation=self._generation_after(before)))

        openings = self.record.update(begin)
        begun = self._write_openings({item: openings[item] for item in self.keys_of}, "always")
        with self._lock:
            self._note(begun)

    def _generation_after(self, openings: Openings) -> str:
        keys = [self.keys.nothing, *(each.generation for each in self.keys_of.values())]
        known = [(each if each.is_open else each.opening).generation for each in openings.values()]
        return str(self._next_generation(keys, [max(known, key=int, default="0")]))

    def _write_openings(self, openings: Openings, when: Literal["always", "if none"]) -> Openings:
        """Open items in Redis, all in one step; what is open there afterwards."""
        self._reset.load()
        with self.client.pipeline(transaction=True) as pipe:
            for item, opened in openings.items():
                asked = [opened.stock, opened.generation, when, *([] if opened.is_open else ["closed"])]
                self._reset(self.keys_of[item].counters(), asked, pipe=pipe)
            answers = pipe.execute()
        return {item: _begun(opened, *answer) for (item, opened), answer in zip(openings.items(), answers, strict=True)}

    def snapshot(self, item: str = DEFAULT_ITEM) -> Snapshot:
        """An item's counters and ledger as of one moment; opens the sale if it never was.

        Of a sale that opens later, it is what it will begin with. Raises as `reconcile`, but for `NotOpen`.
        """
        k = self.keys_of[item]
        while True:
            with self.client.pipeline(transaction=True) as pipe:
                pipe.mget(k.initial, k.stock, k.lucky, k.generation)
                pipe.llen(k.orders)
                (initial, stock, lucky, generation), orders = pipe.execute()
            if stock and generation == self.generation(item):
                return Snapshot(initial=int(initial), stock=int(stock), lucky=int(lucky), orders=orders)
            try:
                self.reconcile(item, generation if stock and generation else "")
            except NotOpen as error:
                return Snapshot(initial=error.opened.stock, stock=error.opened.stock, lucky=0, orders=0)


def _begun(wanted: Opened, generation: str, initial: str, stock: str) -> Opened:
    """What Redis has, of which it does not know when it opens."""
    state: Literal["open", "closed"] = "closed" if stock == "closed" else "open"
    return Opened(generation, int(initial), state, wanted.opens_at_ms if generation == wanted.generation else None)
