"""One sale in Redis: its keys, how it is opened and reset, and what stands in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

LUA = Path(__file__).parent / "lua"


class Keys:
    """Redis keys of a sale. The braces keep one sale in one slot of a cluster.

    Attributes:
        initial: items there were at the last reset.
        stock: items left; a read-modify-write guard without a lock loses updates here.
        lucky: items sold, counted by ``INCR``.
        orders: the ledger: a list of JSON entries ``{order, buyer, instance, guard, token, at_ms}``.
        fence: the highest fencing token that was seen.
        generation: changes with every reset.
        answers: a hash from Idempotency-Key to the first answer.
        previous, previous_orders: counters (a hash) and ledger of the last sale that had orders, kept by the reset.
        lock: what redis-py's Lock holds.
    """

    def __init__(self, sale: str) -> None:
        prefix = f"sale:{{{sale}}}:"
        self.initial = prefix + "initial"
        self.stock = prefix + "stock"
        self.lucky = prefix + "lucky"
        self.orders = prefix + "orders"
        self.fence = prefix + "fence"
        self.generation = prefix + "generation"
        self.answers = prefix + "answers"
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
        client: see `app.redis_client`.
        sale: its id.
        stock: items that the sale begins with if nobody has reset it yet.
    """

    def __init__(self, client: redis.Redis, sale: str, *, stock: int) -> None:
        self.client = client
        self.keys = k = Keys(sale)
        self._stock = stock
        counters = (k.initial, k.stock, k.lucky, k.orders, k.fence, k.generation, k.answers)
        self._reset = self.script("reset", *counters, k.previous, k.previous_orders)

    def script(self, name: str, *keys: str) -> Callable[..., Any]:
        """The script in ``lua/NAME.lua`` on `keys`, to be called with its ARGV.

        Its text is sent once, and again when Redis has forgotten it: a script that Redis does not know did not run.
        """
        script = self.client.register_script((LUA / f"{name}.lua").read_text(encoding="utf-8"))
        return lambda *args: script(keys, args)

    def reset(self, stock: int | None = None) -> None:
        """Begin again with `stock` items, an empty ledger and a new generation."""
        self._reset(self._stock if stock is None else stock, "always")

    def open_if_closed(self) -> None:
        """Begin the sale if there is none: at the very first request, or after Redis lost its data."""
        self._reset(self._stock, "if closed")

    def snapshot(self) -> Snapshot:
        """Counters and ledger as of one moment."""
        self.open_if_closed()
        k = self.keys
        with self.client.pipeline(transaction=True) as pipe:
            pipe.mget(k.initial, k.stock, k.lucky)
            pipe.llen(k.orders)
            (initial, stock, lucky), orders = pipe.execute()
        return Snapshot(initial=int(initial), stock=int(stock), lucky=int(lucky), orders=orders)
