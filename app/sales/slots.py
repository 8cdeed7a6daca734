"""Where the stock of a sale lies: its treasury, from which most guards sell, and the shards of `etcd-sharded`.

A slot is one of them: its keys have one hash tag, so that they lie in one hash slot of a cluster.
"""

from __future__ import annotations

from typing import NamedTuple

from app.sales.purchase import DEFAULT_ITEM
from app.sales.redis_client import Client, client_for


def shard_name(sale: str, number: int) -> str:
    """What the braces hold for a shard of a sale; shards count from zero."""
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
        return [*counted, self.previous, self.previous_orders, self.transfers, self.credited]


class Slot(NamedTuple):
    """The treasury or a shard of one item, and the client of the Redis that has it."""

    client: Client
    keys: Keys

    @classmethod
    def all_of(cls, client: Client, sale: str, item: str, shards: int) -> list[Slot]:
        """The treasury, and after it the shards."""
        names = [sale, *(shard_name(sale, number) for number in range(shards))]
        return [cls(client_for(client, name), Keys(name, item)) for name in names]
