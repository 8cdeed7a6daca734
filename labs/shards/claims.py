"""An idempotency key buys once: a purchase in a shard claims its key in the treasury, where all other guards look.

Claim, sale and answer are three steps, as the treasury and the shard may be on different nodes. After the claim every
other guard that meets the key buys nothing, and is in doubt. The sale keeps the answer in the shard. Then the answer
replaces the claim.

Why a key buys once, wherever the purchase dies: without a claim it has not bought yet; with one no other guard buys.
A retry takes the same claim and comes to the same shard, which sells or has the answer; then it finishes the claim. A
purchase sells only in the generation of its claim: a reset forgets both.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from app.sales.purchase import Purchase, Receipt
from app.sales.redis_client import Script
from app.sales.refusals import REDIS_ERRORS, SaleReset, Unfinished
from app.sales.sale import Sale
from app.sales.stock import REFUSED, STALE, refusal, replayed
from labs.shards.opening import LUA

CLAIM = Script(LUA / "claim.lua")


class Claims:
    """Those of the purchases that a process makes in the shards of a sale."""

    def __init__(self, sale: Sale) -> None:
        self._sale = sale
        self._generations: dict[str, str] = {}

    def claim(self, purchase: Purchase) -> Receipt | None:
        """Claim the key, or find it claimed for this buyer and item: None. Or else the receipt that it has already.

        Raises as `Stock.read`, and `KeyReused`; nothing was sold then.
        """
        while True:
            generation, sent = self._sale.generation, time.monotonic()
            if purchase.began < self._sale.begun_at:
                raise SaleReset(STALE)
            status, *found = self._keep(purchase, generation, "", 0)
            if status in REFUSED:
                raise refusal(status, found[0], None)
            if status != "generation":
                break
            self._sale.follow(generation, found[0], found[1], sent)
        self._generations[purchase.order] = generation
        with suppress(Unfinished):  # a claim of this purchase, whose first try is not over, or died
            return replayed(purchase, found[0], item=purchase.item) if found else None
        return None

    def generation_of(self, purchase: Purchase) -> str:
        """The generation in which its key is claimed, and in no other does it buy; empty if it claims none."""
        return self._generations.get(purchase.order, "")

    def answer(self, purchase: Purchase, receipt: Receipt) -> None:
        """Let the receipt replace the claim. If it cannot, a retry will: the shard has the answer."""
        sold = replace(purchase, order=receipt.order or purchase.order)
        with suppress(*REDIS_ERRORS):
            self._keep(sold, self.generation_of(purchase), receipt.outcome.value, receipt.stock)

    def forget(self, purchase: Purchase) -> None:
        """The purchase has ended, however it did."""
        self._generations.pop(purchase.order, None)

    def _keep(self, purchase: Purchase, generation: str, outcome: str, stock: object) -> list[str]:
        k = self._sale.keys_of[purchase.item]
        asked = [generation, purchase.key or "", outcome, str(stock), purchase.entry()]
        answer: list[str] = CLAIM.run(self._sale.client, [k.stock, k.generation, k.answers], asked)
        return answer
