"""One sale in Redis: its keys, how it is opened and reset, and what stands in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Any, Literal

import redis
from redis.client import Pipeline
from redis.exceptions import NoScriptError

from app.sales.opening import Opened, OpeningRecord, Openings
from app.sales.purchase import DEFAULT_ITEM
from app.sales.refusals import SaleLost, again
from lock import EtcdError

LUA = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "lua").glob("*.lua")}
TEXTS = {name: LUA["common"] + text for name, text in LUA.items() if name != "common"}
_PATIENCE_S = (0.02, 0.1)


class Keys:
    """Redis keys of one item of a sale. The braces keep one sale in one slot of a cluster.

    The first item's keys are ``sale:{SALE}:stock`` and so on, those of item 7 ``sale:{SALE}:7:stock``.

    Attributes:
        initial: items there were at the last reset.
        stock: items left; a read-modify-write guard without a lock loses updates here.
        lucky: items sold, counted by ``INCR``.
        orders: the ledger: a list of JSON entries ``{order, buyer, instance, guard, token, at_ms}``.
        fence: the highest fencing token that was seen.
        generation: which opening of the sale this is, see `app.sales.opening`; without it there is no sale.
        answers: a hash from Idempotency-Key to the first answer, shared by all items.
        previous, previous_orders: counters (a hash) and ledger of the last sale that had orders, kept by the reset.
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
        self.previous = prefix + "previous"
        self.previous_orders = prefix + "previous-orders"
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

    def judged(self, *, gave_up: int = 0, failed: int = 0) -> str:
        """The verdict, from the ledger: the counter alone looks right even when far too much was sold.

        tests/data/verdicts.json holds it to the load test's verdict and to the board's page.

        Args:
            gave_up: buyers who waited for the lock until their time was over.
            failed: other buyers who were neither served nor told that all is sold.
        """
        unsold = self.initial - self.orders
        if unsold < 0:
            return f"OVERSOLD by {-unsold}"
        undersold = max(min(unsold, gave_up + failed), unsold - self.stock)
        lost = self.lost_updates
        flaws = [f"UNDERSOLD by {undersold}"] if undersold > 0 else []
        flaws += [f"gave up: {gave_up}"] if undersold > 0 and gave_up else []
        flaws += [f"{lost} lost update{'s' if lost > 1 else ''}"] if lost else []
        return ", ".join(flaws) or "EXACT"


class Script:
    """One of ``lua/*.lua``. The texts are sent once, and again when Redis has forgotten them: then none did run."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._sha = sha1(TEXTS[name].encode()).hexdigest()

    def __call__(self, keys: Sequence[str], args: Sequence[str | int], *, pipe: Pipeline | None = None) -> Any:
        """Run it, or queue it where `pipe` is inside MULTI: `load` it before."""
        evalsha = (pipe or self._client).evalsha
        try:
            return evalsha(self._sha, len(keys), *keys, *args)
        except NoScriptError:
            self.load()
            return evalsha(self._sha, len(keys), *keys, *args)

    def load(self) -> None:
        """Send all texts: a purchase that needs two scripts must not find the second one missing after its thinking."""
        with self._client.pipeline(transaction=False) as pipe:
            for text in TEXTS.values():
                pipe.script_load(text)
            pipe.execute()


class Sale:
    """Opens, resets and reports one sale; knows which generation of each item this process sells. Thread-safe.

    Args:
        client: see `app.sales.redis_client`.
        sale: its id.
        record: what etcd knows of it.
        stock: pieces of each item that the sale begins with if nobody has reset it yet.
        items: how many items there are; they are called "1", "2" and so on.

    Attributes:
        keys_of: the Redis keys of each item, in the order in which the items are shown.
    """

    def __init__(self, client: redis.Redis, sale: str, *, record: OpeningRecord, stock: int, items: int = 1) -> None:
        self.client = client
        self.keys_of = {item: Keys(sale, item) for item in map(str, range(1, items + 1))}
        self._record = record
        self._stock = stock
        self._reset = Script(client, "reset")
        self._next_generation = Script(client, "next_generation")
        self._known: dict[str, str] = {}
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

    def reconcile(self, item: str, found: str) -> None:
        """Ask etcd, because Redis has generation `found` (or none: empty) and not `generation`; return to try again.

        Opens the sale if it never was. Threads that come while one asks share its answer.

        Raises:
            SaleLost: Redis does not have what was opened last.
            EtcdUnavailable: etcd cannot tell what was opened.
        """
        came = time.monotonic()
        with self._lock:
            if self._lost.get(item) == found:
                raise SaleLost
            if found and self._known.get(item) == found:
                return
            if self._outage and self._outage[0] >= came:
                raise again(self._outage[1])
            try:
                openings = self._record.read()
            except EtcdError as error:
                self._outage = time.monotonic(), error
                raise
            if item not in openings and item not in self._known:  # if it is known, etcd was wiped: do not open it twice
                openings = self._open_new(openings)
            if item not in openings or not self._follows(item, openings[item]):
                self._lost[item] = found
                raise SaleLost
            self._known.update({each: opened.generation for each, opened in openings.items()})

    def _open_new(self, openings: Openings) -> Openings:
        """Open the items that never were, or adopt how they stand in Redis."""
        new = [item for item in self.keys_of if item not in openings]
        generation = self._generation_after(openings)
        begun = self._write_openings({item: Opened(generation, self._stock) for item in new}, "if closed")
        return self._record.update(lambda before: {**begun, **before})

    def _follows(self, item: str, opened: Opened) -> bool:
        """Whether Redis has this opening. A reset writes to etcd first, so Redis has a moment to follow."""
        for patience_s in (0, *_PATIENCE_S):
            time.sleep(patience_s)
            if self._in_redis(item) == opened.generation:
                return True
        return False

    def _in_redis(self, item: str) -> str:
        stock, generation = self.client.mget(self.keys_of[item].stock, self.keys_of[item].generation)
        return str(generation) if stock and generation else ""

    def reset(self, stock: int | None = None) -> None:
        """Begin again with `stock` pieces of each item, empty ledgers and a new generation.

        Raises:
            EtcdUnavailable: nothing is reset.
        """

        def begin(before: Openings) -> Openings:
            opened = Opened(self._generation_after(before), self._stock if stock is None else stock)
            return dict.fromkeys(self.keys_of, opened)

        openings = self._record.update(begin)
        begun = self._write_openings({item: openings[item] for item in self.keys_of}, "always")
        with self._lock:
            self._known.update({item: opened.generation for item, opened in begun.items()})

    def _generation_after(self, openings: Openings) -> str:
        keys = [self.keys.nothing, *(each.generation for each in self.keys_of.values())]
        highest = max((opened.generation for opened in openings.values()), key=int, default="0")
        return str(self._next_generation(keys, [highest]))

    def _write_openings(self, openings: Openings, when: Literal["always", "if closed"]) -> Openings:
        """Open items in Redis, all in one step; what is open there afterwards."""
        self._reset.load()
        with self.client.pipeline(transaction=True) as pipe:
            for item, opened in openings.items():
                self._reset(self.keys_of[item].counters(), [opened.stock, opened.generation, when], pipe=pipe)
            answers = pipe.execute()
        return {item: Opened(answer[0], int(answer[1])) for item, answer in zip(openings, answers, strict=True)}

    def snapshot(self, item: str = DEFAULT_ITEM) -> Snapshot:
        """An item's counters and ledger as of one moment; opens the sale if it never was. Raises as `reconcile`."""
        k = self.keys_of[item]
        while True:
            with self.client.pipeline(transaction=True) as pipe:
                pipe.mget(k.initial, k.stock, k.lucky, k.generation)
                pipe.llen(k.orders)
                (initial, stock, lucky, generation), orders = pipe.execute()
            if stock and generation == self.generation(item):
                return Snapshot(initial=int(initial), stock=int(stock), lucky=int(lucky), orders=orders)
            self.reconcile(item, generation if stock and generation else "")
