"""The names of a sale's keys in Redis and etcd.

A slot is a part of a sale whose keys have one hash tag, so that they lie in one hash slot of a cluster: the treasury,
from which most guards sell, or one of the shards of `etcd-sharded`.
"""

from __future__ import annotations

DEFAULT_ITEM = "1"


def key_prefix(slot: str) -> str:
    """What the Redis keys of a slot begin with."""
    return f"sale:{{{slot}}}:"


def slot_names(sale: str, shards: int) -> list[str]:
    """What the braces hold for each slot of a sale: the treasury, and after it the shards, which count from zero."""
    return [sale, *(f"{sale}/{number}" for number in range(shards))]


def queue_name(sale: str) -> str:
    """The name in etcd of a sale's mutex; the keys of its queue begin with it and a slash."""
    return f"flash-sale/{sale}"


class Keys:
    """Redis keys of one item in one slot.

    The treasury's are ``sale:{SALE}:stock`` and so on, those of item 7 ``sale:{SALE}:7:stock``. Shard 3 has the same
    keys under ``sale:{SALE/3}:``.

    Attributes:
        prefix: of the keys that all items share; the hash tag is in it.
        initial: items there were at the last reset.
        stock: items left; a read-modify-write guard without a lock loses updates here.
        lucky: items sold, counted by ``INCR``.
        orders: the ledger: a list of JSON entries, see `app.contract.orders`.
        fence: the highest fencing token that was seen.
        generation: tells one sale from the next, see `app.sales.sale`; shared by all items.
        answers: a hash from Idempotency-Key to the first answer, or a claim of `etcd-sharded`, shared by all items.
        transfers: the journal, a hash from a transfer's id to ``SHARD AMOUNT``: items that left here for that shard.
        credited: a set of the ids of transfers that have arrived here.
        previous, previous_orders: counters (a hash) and ledger of the last sale that had orders, kept by the reset.
        lock: what redis-py's Lock holds.
        nothing: never exists.
    """

    def __init__(self, slot: str, item: str = DEFAULT_ITEM) -> None:
        self.prefix = key_prefix(slot)
        own = self.prefix if item == DEFAULT_ITEM else f"{self.prefix}{item}:"
        self.initial = own + "initial"
        self.stock = own + "stock"
        self.lucky = own + "lucky"
        self.orders = own + "orders"
        self.fence = own + "fence"
        self.generation = self.prefix + "generation"
        self.answers = self.prefix + "answers"
        self.transfers = own + "transfers"
        self.credited = own + "credited"
        self.previous = own + "previous"
        self.previous_orders = own + "previous-orders"
        self.lock = own + "lock"
        self.nothing = self.prefix + "nothing"
