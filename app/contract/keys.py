"""The names of a sale's keys in Redis and etcd."""

from __future__ import annotations

DEFAULT_ITEM = "1"


def key_prefix(sale: str) -> str:
    """The prefix of a sale's Redis keys; the braces keep them in one hash slot of a Redis Cluster."""
    return f"sale:{{{sale}}}:"


def queue_name(sale: str) -> str:
    """The name in etcd of a sale's mutex; the keys of its queue begin with it and a slash."""
    return f"flash-sale/{sale}"


class Keys:
    """Redis keys of one item: ``sale:{SALE}:stock`` and so on, those of item 7 ``sale:{SALE}:7:stock``.

    Attributes:
        prefix: of the keys that all items share.
        initial: items at the last reset.
        stock: items left; a read-modify-write guard without a lock loses updates here.
        lucky: items sold, counted by ``INCR``.
        orders: the ledger: a list of JSON entries, see `app.contract.orders`.
        fence: the highest fencing token that was seen, behind the name of the guard that numbers it if etcd does not.
        generation: tells one sale from the next, see `app.sales.sale`; shared by all items.
        answers: a hash from Idempotency-Key to the first answer, shared by all items.
        previous, previous_orders: counters (a hash) and ledger of the last sale that had orders, kept by the reset.
        lock: the key of a lock in Redis; ``tokens`` counts its holders, if they have tokens.
        nothing: a key that never exists.
    """

    def __init__(self, sale: str, item: str = DEFAULT_ITEM) -> None:
        self.prefix = key_prefix(sale)
        own = self.prefix if item == DEFAULT_ITEM else f"{self.prefix}{item}:"
        self.initial = own + "initial"
        self.stock = own + "stock"
        self.lucky = own + "lucky"
        self.orders = own + "orders"
        self.fence = own + "fence"
        self.generation = self.prefix + "generation"
        self.answers = self.prefix + "answers"
        self.previous = own + "previous"
        self.previous_orders = own + "previous-orders"
        self.lock = own + "lock"
        self.tokens = own + "tokens"
        self.nothing = self.prefix + "nothing"
