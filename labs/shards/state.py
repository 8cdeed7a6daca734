"""Where the items of a sale lie just now: in the treasury, in each shard, and between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from labs.shards.opening import Places


class SlotCount(NamedTuple):
    """What lies in a slot, and what was sold from it."""

    stock: int
    orders: int


@dataclass(frozen=True)
class ItemState:
    """One item, slot by slot.

    Attributes:
        in_transit: items that have left one slot and not arrived in another.
    """

    treasury: SlotCount
    shards: tuple[SlotCount, ...]
    in_transit: int

    @property
    def unsold(self) -> int:
        """Items that are left, wherever they are."""
        return self.treasury.stock + sum(shard.stock for shard in self.shards) + self.in_transit

    @property
    def orders(self) -> int:
        return self.treasury.orders + sum(shard.orders for shard in self.shards)


def state_of(places: Places) -> ItemState:
    """Read it slot by slot; a shard that is not open in the sale of now is empty. Raises `redis.RedisError`."""
    counts, in_transit, current = list[SlotCount](), 0, None
    for place, slot in enumerate(places.slots):
        k = slot.keys
        orders = k.orders if place else places.keys.orders
        with slot.client.pipeline(transaction=True) as pipe:
            pipe.mget(slot.generation, k.generation, slot.stock, k.sent, k.arrived)
            pipe.llen(orders)
            (generation, of_lab, stock, sent, arrived), sold = pipe.execute()
        current = generation if place == 0 else current
        is_open = of_lab == current
        in_transit += int(sent or 0) - int(arrived or 0) if is_open else 0
        counts.append(SlotCount(int(stock or 0), sold) if is_open or place == 0 else SlotCount(0, 0))
    return ItemState(counts[0], tuple(counts[1:]), in_transit)
