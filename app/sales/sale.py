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
