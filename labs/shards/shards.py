"""The stock of one item on several shards: a purchase touches one of them, by one script and without a lock.

This divides a hot counter as the escrow method does (P. O'Neil, "The Escrow Transactional Method", ACM TODS 1986).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from zlib import crc32

from app.contract.clock import now_ns
from app.sales.commit_queue import CommitQueue
from app.sales.purchase import Purchase, Receipt, Section, Token
from app.sales.redis_client import Script, answered_until
from app.sales.refusals import PurchaseError, SaleReset
from app.sales.sale import Sale
from app.sales.stock import REFUSED, STALE, receipt_of, refusal, sending
from labs.shards.claims import Claims
from labs.shards.opening import LUA, Places
from labs.shards.slots import Slot
from labs.shards.transfer import Transfers

PATIENCE_S = 1.0  # for the nodes, under the mutex
SELL = Script(LUA / "sell.lua")
Result = Receipt | PurchaseError | None


class ShardedStock:
    """The shards of one item.

    Attributes:
        places: the treasury and the shards.
        line: held by the thread of this process that brings items.
        sold_out: the generation of which nothing is left anywhere.
    """

    def __init__(self, sale: Sale, item: str, shards: int, claims: Claims) -> None:
        self._sale = sale
        self._claims = claims
        self.places = Places(sale, item, shards)
        self.shards = [Shard(number, slot) for number, slot in enumerate(self.places.slots[1:])]
        self.line = threading.Lock()
        self.sold_out = ""

    def shard_of(self, purchase: Purchase) -> Shard:
        """The same at every instance, so that a retry meets the answer to its idempotency key."""
        return self.shards[crc32((purchase.key or purchase.buyer).encode()) % len(self.shards)]

    def sell(self, shard: Shard, sections: Sequence[Section]) -> list[Result]:
        """What comes of each, by one script without a lock; None if the shard is empty and others may have items.

        Errors that concern one purchase are its result: `KeyReused`, `SaleReset`.

        Raises:
            InDoubt: the answer was lost, for all of them.
        """
        shard.is_empty = False
        shard.brought.clear()  # before the look, which sees what was brought until now
        for section in sections:
            section.purchase.listener.write(section)
        for _ in range(2):  # a reset may come between the look at the treasury and the purchase
            generation, begun_at = self.places.current(shard.slot), self._sale.begun_at
            belong = [self._belongs(each.purchase, generation, begun_at) for each in sections]
            found = self._run(shard, [*compress(sections, belong)], generation)
            if found is not None:
                break
        else:
            raise SaleReset(STALE)
        self.places.nodes.has_answered(shard.slot.client)
        decisions = iter(found)
        results = [
            _result(each, *next(decisions)) if belongs else SaleReset(STALE)
            for each, belongs in zip(sections, belong, strict=True)
        ]
        shard.is_empty = None in results
        return results

    def _run(self, shard: Shard, sections: Sequence[Section], generation: str) -> Sequence[tuple[str, str]] | None:
        """The decision for each: an outcome, and what was found; None if the shard is in a later generation.

        A shard that is not open yet in this one is empty.
        """
        k = shard.slot.keys
        keys = [k.stock, k.lucky, k.orders, k.fence, k.generation, k.answers]
        asked = [generation, "sold_out" if self.sold_out == generation else "empty"]
        asked += [text for each in sections for text in (each.purchase.key or "", each.purchase.entry())]
        began, at = time.monotonic(), now_ns()
        try:
            with sending():
                status, *found = SELL.run(shard.slot.client, keys, asked)
        finally:
            for section in sections:
                section.commit_at, section.commit_s = at, time.monotonic() - began
        if status in REFUSED:
            raise refusal(status, found[0], None)
        if status == "generation":
            return None if int(found[0] or 0) > int(generation) else [("empty", "0")] * len(sections)
        return list(zip(found[::2], found[1::2], strict=True))

    def _belongs(self, purchase: Purchase, generation: str, begun_at: float) -> bool:
        """Whether it was clicked in this generation, and has not claimed its key in another one."""
        return purchase.began >= begun_at and self._claims.generation_of(purchase) in ("", generation)

    def refill(self, shard: Shard, fence: Token) -> None:
        """Bring items to the shard and all that are empty; if nothing is left anywhere, they know it then.

        Raises as `Transfers`, if the shard itself gets nothing.
        """
        transfers = Transfers(self.places, fence)
        empty = [shard, *(each for each in self.shards if each.is_empty and each is not shard)]
        try:
            with answered_until(time.monotonic() + PATIENCE_S):
                if not transfers.refill({each.number: len(each.queue) for each in empty}):
                    self.sold_out = transfers.generation
        finally:
            for each in self.shards:
                each.brought.set()


@dataclass(eq=False)
class Shard:
    """One of them.

    Attributes:
        queue: the purchases of this process that wait for an answer.
        is_empty: whether it was, by the last answer; not while there is none, as its node may be down.
        brought: set when a thread of this process has brought items since the last look.
    """

    number: int
    slot: Slot
    queue: CommitQueue = field(default_factory=CommitQueue)
    is_empty: bool = False
    brought: threading.Event = field(default_factory=threading.Event)


def _result(section: Section, outcome: str, found: str) -> Result:
    if outcome == "empty":
        return None
    try:
        section.receipt = receipt = receipt_of(section.purchase, outcome, found)
        return receipt
    except PurchaseError as error:  # which concerns this purchase alone
        return error
