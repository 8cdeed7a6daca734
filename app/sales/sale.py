"""One sale in Redis: opened, reset and reported.

The *generation* tells one sale from the next. It is a number in Redis that rises with every reset. Every script of a
purchase names the generation that it expects, so a process notices:

- If Redis has a higher generation, the sale was reset. The process goes on in the new sale, and refuses purchases that
  began before the reset: their buyers may have left long ago.
- If Redis has no generation, or a lower one, it has lost its data or has an old copy. Nothing is sold before a reset.

A Redis that lost its data looks like a new one. So one key in etcd says that the sale was opened before. No click reads
it: only a process that has just started and finds no sale does. If that process creates the key, it opens the sale.

A reset uses Redis's clock, because the clocks of the instances may be wrong.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from typing import Any

import redis

from app.contract.clock import utc_now
from app.contract.keys import DEFAULT_ITEM, Keys
from app.sales.redis_client import LUA, Script
from app.sales.refusals import EtcdLost, SaleLost
from app.sales.snapshot import SaleSnapshot, read_item
from lock import Client as EtcdClient
from lock import EtcdError

RESET = Script(LUA / "reset.lua")
_POLLS, _POLL_S = 20, 0.05  # wait so often, in seconds, for the reset of the process that created the key in etcd


class Sale:
    """Opens, resets and reports one sale; knows which generation this process sells. Thread-safe.

    The items are named "1", "2" and so on.

    Args:
        etcd: a client of etcd.
        stock: pieces of each item when the sale is opened for the first time.
        timeout: of each call to etcd, in seconds; `None`: the client's own.

    Attributes:
        generation: the generation that purchases expect in Redis; empty if not yet known.
        begun_at: earliest start of this generation, in seconds of `time.monotonic`; minus infinity for the first.
        keys_of: the Redis keys of each item; `keys` are those of the default item.
    """

    def __init__(
        self,
        client: redis.Redis,
        name: str,
        *,
        etcd: EtcdClient,
        stock: int,
        items: int = 1,
        timeout: float | None = None,
    ) -> None:
        self.client = client
        self.name = name
        self.keys_of = {item: Keys(name, item) for item in map(str, range(1, items + 1))}
        self.keys = self.keys_of[DEFAULT_ITEM]
        self.etcd = etcd
        self.opened_key = f"sale/{name}/opened"  # not below flash-sale/SALE/, the queue of the mutex
        self.generation = ""
        self.begun_at = -math.inf
        self._stock = stock
        self._timeout = timeout
        self._was_opened = False  # whether etcd says that the sale was opened before this process began
        self._lock = threading.Lock()

    def follow(self, expected: str, actual: str, now_us: str | int, sent: float) -> None:
        """Adopt the generation that Redis has; then the caller retries.

        Args:
            expected: the generation that the script named.
            actual: the generation in Redis; empty if there is none.
            now_us: Redis's clock when the script ran, in microseconds since the epoch.
            sent: a time before the script was sent, in seconds of `time.monotonic`.

        Raises:
            SaleLost: Redis has lost the sale that this process sold, or one that was opened before this process began.
            EtcdError: this process has just begun, and etcd cannot tell whether the sale was opened before.
        """
        if not expected and not actual:
            self._open_first()
            return
        with self._lock:
            if self.generation != expected:
                return  # another thread has adopted a generation meanwhile
            if not actual or int(actual) < int(expected or 0):
                raise SaleLost
            if expected:
                since_s = (int(now_us) - int(actual)) / 1e6  # negative if the generation is ahead of the clock
                self.begun_at = sent - max(since_s, 0.0)
            self.generation = actual

    def _open_first(self) -> None:
        """Open a sale that was never opened. Raises `SaleLost` if it was, and as `reset`."""
        if self._learn():  # there is a sale, without this item
            return
        if not self._was_opened:
            self.require_writable()  # otherwise the key could be created for a sale that then cannot be opened
            if self._note_opening():
                self.reset()
                return
            for _ in range(_POLLS):  # the process that created the key is about to open the sale
                if self._learn():
                    return
                time.sleep(_POLL_S)
            self._was_opened = True
        raise SaleLost

    def _learn(self) -> bool:
        """Adopt the generation in Redis if this process knows none; returns whether Redis has one."""
        generation = str(self.client.get(self.keys.generation) or "")
        with self._lock:
            self.generation = self.generation or generation
        return bool(generation)

    def _note_opening(self) -> bool:
        """Create the key in etcd that says that the sale was opened; returns whether this call created it."""
        mark = f"{utc_now()} {uuid.uuid4().hex}".encode()
        key = self.etcd.create(self.opened_key, mark, 0, timeout=self._timeout)
        return key is not None and key.value == mark

    def require_writable(self) -> None:
        """Raise `redis.RedisError` if Redis takes no writes. Writes nothing: it replaces a key that never exists."""
        self.client.eval("redis.call('SET', KEYS[1], '', 'XX')", 1, self.keys.nothing)

    def reset(self, stock: int | None = None) -> None:
        """Start again with `stock` pieces of each item, empty ledgers and a higher generation.

        Raises:
            EtcdError: Redis has no sale, and the key that says that it was opened cannot be created; nothing is reset.
        """
        try:
            self._note_opening()
        except EtcdError:
            if not self.client.exists(self.keys.generation):  # otherwise the key was created when this sale was opened
                raise
        items = self._stock if stock is None else stock
        sent = time.monotonic()
        keys = [self.keys.generation, self.keys.answers]
        for k in self.keys_of.values():
            keys += [k.initial, k.stock, k.lucky, k.orders, k.fence, k.previous, k.previous_orders]
        generation = RESET.run(self.client, keys, [items, self.generation or 0])
        with self._lock:
            if self.generation:
                self.begun_at = sent
            if int(generation) > int(self.generation or 0):  # otherwise a later reset was faster
                self.generation = generation

    def check(self) -> None:
        """Raise the error that would refuse every purchase: `SaleLost`, `EtcdLost`, or a server that is unreachable.

        Creates the key in etcd if it is missing: etcd was unavailable when the instances started, or was wiped.
        """
        self.snapshot()
        revision, is_noted = self.read_etcd()
        if not is_noted:
            self._note_opening()
        fence = str(self.client.get(self.keys.fence) or "0")
        is_etcds = ":" not in fence  # else a guard numbers its tokens, see `app.sales.purchase.fence_text`
        if is_etcds and int(fence.partition(".")[0]) > revision:
            raise EtcdLost

    def read_etcd(self) -> tuple[int, bool]:
        """etcd's revision, and whether it has the key that says that the sale was opened; needs a quorum."""
        revision, keys = self.etcd.get_prefix(self.opened_key, timeout=self._timeout)
        return revision, bool(keys)

    def snapshot(self, item: str = DEFAULT_ITEM) -> SaleSnapshot:
        """An item's counters and ledger; opens a sale that never was. Raises as `follow` and `read_item`."""
        while True:
            expected, sent = self.generation, time.monotonic()
            reading = read_item(self.client, self.keys_of[item])
            if reading.generation and reading.generation == expected:
                return reading.snapshot
            self.follow(expected, reading.generation, self.now_us(), sent)

    def now_us(self) -> int:
        """Redis's clock, in microseconds since the epoch."""
        clock: Any = self.client.time()
        return int(clock[0] * 1_000_000 + clock[1])
