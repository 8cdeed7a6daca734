"""Selling one item: read, think, write; or all in one script.

A purchase without a fence believes what it read: others may write in between, which is the race that guards prevent.
With a fence it is refused if a holder with a higher token was there before, at the read as well as at the write.

The read also fetches the first answer to the idempotency key, and the write stores the answer together with the order:
a retry finds both or neither, and nothing is bought twice.

The sold-out check: one look at an empty stock answers all requests that began before it, without the lock. The stock
itself is asked, so a reset or a delivery need not correct anything. A look under the lock decides whether asking is
worth while. A request that began before another one asked need not ask again: that answer was true while the request
was waiting for its own. (A request with an idempotency key asks for itself, because its answer has to be kept.)

Error handling: `Refused`, `redis.ConnectionError`, `redis.TimeoutError`, `FencedOff`, `SaleReset`, `SaleLost` and
`EtcdError` mean that no order was written: at most "sold out" was kept for the idempotency key. `InDoubt` means
that a write was sent and its answer lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from redis.client import Pipeline

from app.sales.purchase import DEFAULT_ITEM, Outcome, Purchase, Receipt
from app.sales.refusals import KeyReused, SaleLost, SaleReset
from app.sales.sale import Sale
from app.sales.scripts import decided, fenced_off, run, sending, settled
from app.sales.slots import Slot
from app.sales.tokens import Token, fence_text


@dataclass(frozen=True, slots=True)
class Reading:
    """The receipt, if the purchase is decided by the read, or else what the write needs."""

    receipt: Receipt | None = None
    stock: int = 0
    generation: str = ""


class Inventory:
    """Sells one item from one slot, by default the treasury."""

    def __init__(self, sale: Sale, *, item: str = DEFAULT_ITEM, slot: Slot | None = None) -> None:
        self._sale = sale
        self._item = item
        self._slot = slot or sale.slots_of[item][0]
        self._client, k = self._slot
        self._keys = [k.stock, k.lucky, k.orders, k.fence, k.generation, k.answers]
        self.sold_out_at: float | None = None  # when the last look was sent that found nothing (`time.monotonic`)

    def read(self, purchase: Purchase, *, fence: Token | None = None, pipe: Pipeline | None = None) -> Reading:
        """The stock, or the receipt of a purchase that is decided already.

        A `fence` shuts out every lower token from here on. A `pipe` is one that is `watching`.

        Raises:
            FencedOff: a higher token was here before.
        """
        generation = self._sale.generation
        entry = purchase.entry() if purchase.key else ""
        with purchase.timing("read"):
            asked = [generation, fence_text(fence), purchase.key or "", entry]
            status, found = run(pipe or self._client, "read", self._keys, asked)
        if status == "generation":
            self._sale.reconcile(self._item, found)
            return self.read(purchase, fence=fence, pipe=pipe)
        if status == "fenced":
            raise fenced_off(fence, found)
        if status == "open":
            return Reading(stock=int(found), generation=generation)
        return Reading(settled(purchase, status, found))

    def write(
        self, purchase: Purchase, reading: Reading, *, fence: Token | None = None, pipe: Pipeline | None = None
    ) -> Receipt:
        """Take one piece of what was read: counter, ledger and answer land together or not at all.

        Raises:
            FencedOff: a higher token than `fence` was here since the read.
            SaleReset, SaleLost: the sale was reset, or lost, since the read.
            InDoubt: the answer was lost.
            redis.WatchError: what `pipe` watches has changed since the read; nothing was written.
        """
        entry, left = purchase.entry(), reading.stock - 1
        asked: list[str | int] = [reading.generation, fence_text(fence), purchase.key or "", entry, left]
        with purchase.timing("commit"), sending():
            if pipe:
                pipe.multi()
            queued_or_told = run(pipe or self._client, "write", self._keys, asked)
            status, found = pipe.execute()[0] if pipe else queued_or_told
        if status == "generation":
            raise SaleReset("the sale was reset while this purchase was being made") if found else SaleLost
        if status == "fenced":
            raise fenced_off(fence, found)
        return settled(purchase, status, found)

    @contextmanager
    def watching(self) -> Iterator[Pipeline]:
        """A pipeline for `read` and `write` that writes nothing if the stock is touched from now on."""
        with self._client.pipeline() as pipe:
            pipe.watch(self._slot.keys.stock)  # type: ignore[no-untyped-call]
            yield pipe

    def sell(self, purchase: Purchase) -> Receipt:
        """The whole purchase in one script; raises as `sell_group`, and `KeyReused`."""
        ((status, found),) = self._decide([purchase])
        return settled(purchase, status, found)

    def sell_group(
        self, purchases: Sequence[Purchase], *, fence: Token | None = None, sold_out: str | None = None
    ) -> list[Receipt | KeyReused | None]:
        """Many purchases, read and written in one script; what came of each, in the order given.

        In a shard `sold_out` is the generation of which no slot has items. In another one it is only empty: None.

        Raises:
            FencedOff: a higher token than `fence` was here before; nothing was written.
            InDoubt: the answer was lost, for all of them.
        """
        decisions = self._decide(purchases, fence=fence, sold_out=sold_out)
        return [_one_of_many(*each) for each in zip(purchases, decisions, strict=True)]

    def _decide(
        self, purchases: Sequence[Purchase], *, fence: Token | None = None, sold_out: str | None = None
    ) -> list[tuple[str, str]]:
        """What ``sell.lua`` says of each: a status, and what was found."""
        generation = self._sale.generation
        asked = [generation, fence_text(fence), generation if sold_out is None else sold_out]
        asked += [text for purchase in purchases for text in (purchase.key or "", purchase.entry())]
        with ExitStack() as timing, sending():
            for purchase in purchases:
                timing.enter_context(purchase.timing("commit"))
            status, *found = run(self._client, "sell", self._keys, asked)
        if status == "generation":
            self._sale.reconcile(self._item, found[0], self._slot)
            return self._decide(purchases, fence=fence, sold_out=sold_out)
        if status == "fenced":
            raise fenced_off(fence, found[0])
        return list(zip(found[::2], found[1::2], strict=True))

    def note_sold_out(self, receipt: Receipt | None, asked: float | None) -> bool:
        """Note a look at the stock, not sent before `asked`, if it has found nothing; whether it has."""
        is_sold_out = receipt is not None and receipt.outcome is Outcome.SOLD_OUT and not receipt.replayed
        if is_sold_out:
            self.sold_out_at = asked
        return is_sold_out

    def ensure_open(self, purchase: Purchase) -> None:
        """Read, if the sale was closed when this process last asked etcd; raises as `Sale.reconcile`, so `NotOpen`."""
        if self._sale.may_be_closed:
            self.read(replace(purchase, key=None))  # keeps no answer

    def known_sold_out(self, purchase: Purchase) -> Receipt | None:
        """The receipt for "sold out", if an empty stock was seen before and Redis confirms it."""
        if (seen := self.sold_out_at) is None:
            return None
        if purchase.began < seen and not purchase.key:
            return decided(purchase, Outcome.SOLD_OUT, 0)
        asked = time.monotonic()
        receipt = self.read(purchase).receipt
        if receipt is None:
            self.sold_out_at = None
        self.note_sold_out(receipt, asked)
        return receipt


def _one_of_many(purchase: Purchase, decision: tuple[str, str]) -> Receipt | KeyReused | None:
    """An error that concerns one purchase of a group, and not the others."""
    try:
        return None if decision[0] == "empty" else settled(purchase, *decision)
    except KeyReused as error:
        return error
