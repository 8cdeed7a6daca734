"""One sale in Redis: its keys, how it is opened and reset, and what stands in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.commands.core import Script

from app.sales.purchase import DEFAULT_ITEM

LUA = Path(__file__).parent / "lua"


class Keys:
    """Redis keys of one item of a sale. The braces keep one sale in one slot of a cluster.

    The first item's keys are ``sale:{SALE}:stock`` and so on, those of item 7 ``sale:{SALE}:7:stock``.

    Attributes:
        initial: items there were at the last reset.
        stock: items left; a read-modify-write guard without a lock loses updates here.
        lucky: items sold, counted by ``INCR``.
        orders: the ledger: a list of JSON entries ``{order, buyer, instance, guard, token, at_ms}``.
        fence: the highest fencing token that was seen.
        generation: changes with every reset; without it there is no sale, whatever a late write has left of one.
        answers: a hash from Idempotency-Key to the first answer, shared by all items.
        previous, previous_orders: counters (a hash) and ledger of the last sale that had orders, kept by the reset.
        lock: what redis-py's Lock holds.
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


@dataclass(frozen=True)
class Snapshot:
    """What stands in Redis at one moment."""

    initial: int
    stock: int
    lucky: int
    orders: int

    @property
    def lost_updates(self) -> int:
        """Orders that the stock counter does not know of."""
        return self.orders + self.stock - self.initial

    @property
    def verdict(self) -> str:
        """The sale judged by its ledger; the counter alone looks right even when far too much was sold."""
        if self.orders > self.initial:
            return f"OVERSOLD by {self.orders - self.initial}"
        if self.orders + max(self.stock, 0) < self.initial:
            return f"UNDERSOLD by {self.initial - self.orders - max(self.stock, 0)}"
        if self.lost_updates:
            return f"{self.lost_updates} lost update{'s' if self.lost_updates > 1 else ''}"
        return "EXACT"


class Sale:
    """Opens, resets and reports one sale.

    Args:
        client: see `app.sales.redis_client`.
        sale: its id.
        stock: pieces of each item that the sale begins with if nobody has reset it yet.
        items: how many items there are; they are called "1", "2" and so on.

    Attributes:
        keys_of: the Redis keys of each item, in the order in which the items are shown.
    """

    def __init__(self, client: redis.Redis, sale: str, *, stock: int, items: int = 1) -> None:
        self.client = client
        self.keys_of = {item: Keys(sale, item) for item in map(str, range(1, items + 1))}
        self._stock = stock
        self._reset = {item: self.script("reset", *_counters(keys)) for item, keys in self.keys_of.items()}

    @property
    def keys(self) -> Keys:
        """Those of the default item."""
        return self.keys_of[DEFAULT_ITEM]

    def script(self, name: str, *keys: str) -> Callable[..., Any]:
        """The script in ``lua/NAME.lua`` on `keys`, to be called with its ARGV.

        Its text is sent once, and again when Redis has forgotten it: a script that Redis does not know did not run.
        """
        script = self.load(name)
        return lambda *args, client=None: script(keys, args, client)

    def load(self, name: str) -> Script:
        """The script in ``lua/NAME.lua``, to be called with KEYS and ARGV."""
        return self.client.register_script((LUA / f"{name}.lua").read_text(encoding="utf-8"))

    def reset(self, stock: int | None = None) -> None:
        """Begin again with `stock` pieces of each item, empty ledgers and new generations, in one step."""
        with self.client.pipeline(transaction=True) as pipe:
            for reset in self._reset.values():
                reset(self._stock if stock is None else stock, "always", client=pipe)
            pipe.execute()

    def open_if_closed(self, item: str = DEFAULT_ITEM, *, client: redis.Redis | None = None) -> None:
        """Begin the sale of an item if there is none: at the very first request, or after Redis lost its data."""
        self._reset[item](self._stock, "if closed", client=client)

    def snapshot(self, item: str = DEFAULT_ITEM) -> Snapshot:
        """An item's counters and ledger as of one moment, at which its sale is opened if there is none."""
        k = self.keys_of[item]
        with self.client.pipeline(transaction=True) as pipe:
            self.open_if_closed(item, client=pipe)
            pipe.mget(k.initial, k.stock, k.lucky)
            pipe.llen(k.orders)
            _, (initial, stock, lucky), orders = pipe.execute()
        return Snapshot(initial=int(initial), stock=int(stock), lucky=int(lucky), orders=orders)


def _counters(k: Keys) -> tuple[str, ...]:
    return k.initial, k.stock, k.lucky, k.orders, k.fence, k.generation, k.answers, k.previous, k.previous_orders
