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
from pathlib import Path

from app.sales.purchase import Purchase, Receipt
from app.sales.redis_client import Script
from app.sales.refusals import REDIS_ERRORS, SaleReset, Unfinished
from app.sales.sale import Sale
from app.sales.stock import PENDING, REFUSED, STALE, refusal, replayed

CLAIM = Script(Path(__file__).with_name("claim.lua"))


class Claims:
    """Those of the purchases that a process makes in the shards of a sale."""

    def __init__(self, sale: Sale) -> None:
        self._sale = sale

    def claim(self, purchase: Purchase) -> Receipt | None:
        """Claim the key, or find it claimed for this buyer and item: None. Or else the receipt that it has already.

        Raises as `Stock.read`, and `KeyReused`; nothing was sold then.
        """
        while True:
            generation, sent = self._sale.generation, time.monotonic()
            if purchase.began < self._sale.begun_at:
                raise SaleReset(STALE)
            status, *found = self._keep(purchase, generation, PENDING, 0)
            if status in REFUSED:
                raise refusal(status, found[0], None)
            if status != "generation":
                break
            self._sale.follow(generation, found[0], found[1], sent)
        purchase.generation = generation
        with suppress(Unfinished):  # a claim of this purchase, whose first try is not over, or died
            return replayed(purchase, found[0], item=purchase.item) if found else None
        return None

    def answer(self, purchase: Purchase, receipt: Receipt) -> None:
        """Let the receipt replace the claim. If it cannot, a retry will: the shard has the answer."""
        sold = replace(purchase, order=receipt.order or purchase.order)
        with suppress(*REDIS_ERRORS):
            self._keep(sold, purchase.generation, receipt.outcome.value, receipt.stock)

    def _keep(self, purchase: Purchase, generation: str, outcome: str, stock: object) -> list[str]:
        treasury = self._sale.slots_of[purchase.item][0]
        keys = [treasury.keys.stock, treasury.keys.generation, treasury.keys.answers]
        asked = [generation, purchase.key or "", outcome, str(stock), purchase.entry()]
        answer: list[str] = CLAIM.run(treasury.client, keys, asked)
        return answer
