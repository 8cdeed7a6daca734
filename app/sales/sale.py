"""One sale in Redis: opened, reset and reported.

The *generation* tells one sale from the next. It is a number in Redis that rises with every reset, and every script
of a purchase names the one it expects, so that a process notices:

- Redis has a higher generation: the sale was reset. The process goes on in the new sale, and refuses the purchases that
  were clicked before: their buyers may have left long ago.
- Redis has none, or a lower one: it has lost its data, or has an old copy. Nothing is sold before a reset.

A Redis that lost its data looks like one that never had any. So etcd keeps one key that says that the sale was opened
before. Only a process that has just started and finds no sale asks for it, so no click does: it opens the sale where it
is the one that creates the key.

A reset goes by Redis's clock: those of the instances may be wrong.
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
from app.sales.snapshot import ItemReader, Snapshot
from lock import Client as EtcdClient
from lock import EtcdError

RESET = Script(LUA / "reset.lua")
_POLLS, _POLL_S = 20, 0.05  # how long another process may take from the key in etcd to its reset


class Sale:
    """Opens, resets and reports one sale; knows which generation this process sells. Thread-safe.

    Its items are named "1", "2" and so on.

    Args:
        etcd: its client, and the `timeout` of each call in seconds; None: the client's own.
        stock: pieces of each item, where it is opened for the first time.

    Attributes:
        generation: what a purchase expects in Redis; empty if it is not known yet.
        begun_at: when this generation began at the earliest, in seconds of `time.monotonic`, if there was one before.
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
        self._readers = {item: ItemReader(client, keys) for item, keys in self.keys_of.items()}
        self.etcd = etcd
        self.opened_key = f"sale/{name}/opened"  # not below flash-sale/SALE/, the queue of the mutex
        self.generation = ""
        self.begun_at = -math.inf
        self._stock = stock
        self._timeout = timeout
        self._was_opened = False  # before this process began, as etcd says
        self._lock = threading.Lock()

    def follow(self, expected: str, actual: str, now_us: str | int, sent: float) -> None:
        """Go on in the generation that Redis has; the caller tries again when this returns.

        Args:
            expected: the generation with which a script was sent.
            actual: the one that Redis has; empty where there is none.
            now_us: Redis's clock then, in microseconds since the epoch.
            sent: before the script was, in seconds of `time.monotonic`.

        Raises:
            SaleLost: Redis has lost what this process has sold from, or what was opened before this process began.
            EtcdError: this process has just begun, and etcd cannot tell whether the sale was opened before.
        """
        if not expected and not actual:
            self._open_first()
            return
        with self._lock:
            if self.generation != expected:
                return  # another thread has followed meanwhile
            if not actual or int(actual) < int(expected or 0):
                raise SaleLost
            if expected:
                since_s = (int(now_us) - int(actual)) / 1e6  # negative where the generation is ahead of the clock
                self.begun_at = sent - max(since_s, 0.0)
            self.generation = actual

    def _open_first(self) -> None:
        """Open a sale that never was; raises `SaleLost` if it was, or else as `reset`."""
        if self._learn():  # only this item is not there
            return
        if not self._was_opened:
            self.require_writable()  # or the key would tell of a sale that cannot begin
            if self._note_opening():
                self.reset()
                return
            for _ in range(_POLLS):  # the process that has created the key is about to open the sale
                if self._learn():
                    return
                time.sleep(_POLL_S)
            self._was_opened = True
        raise SaleLost

    def _learn(self) -> bool:
        """Take the generation that Redis has, in a process that knows none; whether there is one."""
        generation = str(self.client.get(self.keys.generation) or "")
        with self._lock:
            self.generation = self.generation or generation
        return bool(generation)

    def _note_opening(self) -> bool:
        """Have the key in etcd say that the sale was opened; whether this call has created it."""
        mark = f"{utc_now()} {uuid.uuid4().hex}".encode()
        key = self.etcd.create(self.opened_key, mark, 0, timeout=self._timeout)
        return key is not None and key.value == mark

    def require_writable(self) -> None:
        """Raise `redis.RedisError` where Redis would refuse a purchase: replace a key that does not exist."""
        self.client.eval("redis.call('SET', KEYS[1], '', 'XX')", 1, self.keys.nothing)

    def reset(self, stock: int | None = None) -> None:
        """Begin again with `stock` pieces of each item, empty ledgers and a higher generation.

        Raises:
            EtcdError: Redis has no sale, and etcd cannot note that it had one from now on; nothing is reset.
        """
        try:
            self._note_opening()
        except EtcdError:
            if not self.client.exists(self.keys.generation):  # or else it was noted when this one was opened
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
            if int(generation) > int(self.generation or 0):  # or else a later reset was faster
                self.generation = generation

    def check(self) -> None:
        """Raise what would refuse each purchase: `SaleLost`, `EtcdLost`, or what cannot be reached.

        An etcd that does not know of the sale is told: it was unavailable at the start of the instances, or wiped.
        """
        self.snapshot()
        revision, is_noted = self.read_etcd()
        if not is_noted:
            self._note_opening()
        fence = str(self.client.get(self.keys.fence) or "0").partition(".")[0]
        if int(fence) > revision:
            raise EtcdLost

    def read_etcd(self) -> tuple[int, bool]:
        """etcd's revision, and whether it knows that the sale was opened; a read that takes a quorum."""
        revision, keys = self.etcd.get_prefix(self.opened_key, timeout=self._timeout)
        return revision, bool(keys)

    def snapshot(self, item: str = DEFAULT_ITEM) -> Snapshot:
        """An item's counters and ledgers; opens the sale if it never was. Raises as `follow` and `ItemReader.read`."""
        while True:
            expected, sent = self.generation, time.monotonic()
            reading = self._readers[item].read()
            if reading.generation and reading.generation == expected:
                return reading.snapshot
            self.follow(expected, reading.generation, self.now_us(), sent)

    def now_us(self) -> int:
        """Redis's clock, in microseconds since the epoch."""
        clock: Any = self.client.time()
        return int(clock[0] * 1_000_000 + clock[1])
