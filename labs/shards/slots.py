"""Where the stock of an item lies: in the sale's own place, which is called the treasury here, and in the shards.

A slot is one of them: its keys have one hash tag, so they lie on one node of a cluster. All items are in the treasury
after a reset, which no shard hears of. So the first purchase that needs items opens the shards in the new generation,
under the mutex, and then has the sale note them as further places: readers add them, and a shard that is noted and has
not that generation has lost its data.
"""

from __future__ import annotations

from typing import NamedTuple

import redis

from app.contract.keys import DEFAULT_ITEM, Keys, key_prefix
from app.contract.places import PlaceKeys
from labs.shards.client import for_key


class ShardKeys(PlaceKeys):
    """Redis keys of one item in one shard: ``sale:{SALE/3}:stock`` and so on, of item 7 ``sale:{SALE/3}:7:stock``.

    Attributes:
        fence: the highest fencing token that was seen.
        answers: a hash from Idempotency-Key to the answer of a purchase here.
        transfers: the journal, a hash from a transfer's id to ``SHARD AMOUNT``: items that left here for that shard.
        credited: a set of the ids of transfers that have arrived here.
    """

    def __init__(self, prefix: str) -> None:
        super().__init__(prefix)
        self.fence = prefix + "fence"
        self.answers = prefix + "answers"
        self.transfers = prefix + "transfers"
        self.credited = prefix + "credited"


class Slot(NamedTuple):
    """The treasury or a shard of one item.

    Attributes:
        client: of the node that has it.
        keys: those that this lab has there; of the treasury its journal.
        stock, fence, generation: names of keys; those of the treasury are the sale's own.
    """

    client: redis.Redis
    keys: ShardKeys
    stock: str
    fence: str
    generation: str


def slots_of(client: redis.Redis, sale: str, item: str, shards: int) -> list[Slot]:
    """The treasury, and after it the shards, which count from zero."""
    own, below = Keys(sale, item), "" if item == DEFAULT_ITEM else f"{item}:"
    journal = ShardKeys(f"{key_prefix(sale)}{below}journal:")
    treasury = Slot(for_key(client, own.stock), journal, own.stock, own.fence, own.generation)
    found = [ShardKeys(key_prefix(f"{sale}/{number}") + below) for number in range(shards)]
    return [treasury, *(Slot(for_key(client, k.stock), k, k.stock, k.fence, k.generation) for k in found)]
