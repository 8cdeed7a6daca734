"""Read the state of one item at one moment: its counters and its ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import redis

from app.contract.keys import Keys
from app.contract.verdict import Verdict, judge
from app.sales.refusals import SaleDamaged


@dataclass(frozen=True)
class SaleSnapshot:
    """The state of an item at one moment."""

    initial: int
    stock: int
    lucky: int
    orders: int

    @classmethod
    def read(cls, keys: Keys, counters: Iterable[str | None], orders: int) -> SaleSnapshot:
        """Read initial, stock and `lucky` as Redis has them; raises SaleDamaged."""
        try:
            initial, stock, lucky = (int(each or 0) for each in counters)
        except ValueError as error:
            raise SaleDamaged(keys.stock) from error
        return cls(initial, stock, lucky, orders)

    def judge(self, *, gave_up: int = 0, refused: int = 0, unanswered: int = 0) -> Verdict:
        """The verdict from ledger and counter alone.

        Args:
            gave_up: buyers who timed out while they waited for the lock.
            refused: other buyers who were told that the sale was unavailable or the lock lost.
            unanswered: buyers without an answer.
        """
        wanted = self.orders + gave_up + refused + unanswered
        failed = {"gave_up": gave_up, "refused": refused, "unanswered": unanswered}
        return judge(stock=self.initial, stock_left=self.stock, sold=self.orders, wanted=wanted, **failed)


class ItemReading(NamedTuple):
    """A reading of an item.

    Attributes:
        generation: empty if there is no sale.
        entries: the requested entries of the ledger.
    """

    generation: str
    snapshot: SaleSnapshot
    entries: list[str]


def read_item(client: redis.Redis, keys: Keys, *, seen: int = 0, most: int = 0) -> ItemReading:
    """Read an item, with at most `most` entries of its ledger after the first `seen`.

    Raises:
        SaleDamaged: a counter is not a number.
        redis.RedisError: Redis cannot be read.
    """
    with client.pipeline(transaction=True) as pipe:
        pipe.mget(keys.generation, keys.initial, keys.stock, keys.lucky)
        pipe.llen(keys.orders)
        pipe.lrange(keys.orders, seen, seen + most - 1) if most else pipe.lrange(keys.orders, 1, 0)
        (generation, *counters), orders, entries = pipe.execute()
    has_sale = generation and counters[1] is not None
    return ItemReading(generation if has_sale else "", SaleSnapshot.read(keys, counters, orders), entries)
