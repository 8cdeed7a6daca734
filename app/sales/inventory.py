"""Selling one item: read, think, write; or all in one script.

A purchase without a fence believes what it read: others may write in between, which is the race that guards prevent.
With a fence it is refused if a holder with a higher token was there before, at the read as well as at the write.

The read also fetches the first answer to the idempotency key, and the write stores the answer together with the order:
a retry finds both or neither, and nothing is bought twice.

Error handling: `Refused`, `redis.ConnectionError`, `redis.TimeoutError`, `FencedOff`, `SaleReset`, `SaleLost` and
`EtcdError` mean that no order was written: at most "sold out" was kept for the idempotency key. `InDoubt` means
that a write was sent and its answer lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import redis
from redis.client import Pipeline
from redis.exceptions import NoScriptError

from app.sales.purchase import DEFAULT_ITEM, Purchase, Receipt
from app.sales.refusals import KeyReused, SaleLost, SaleReset
from app.sales.sale import Sale
from app.sales.scripts import Script, fenced_off, sending, settled
from app.sales.sold_out import SoldOutCheck
from app.sales.tokens import Token, fence_text


@dataclass(frozen=True, slots=True)
class Reading:
    """The receipt, if the purchase is decided by the read, or else what the write needs."""

    receipt: Receipt | None = None
    stock: int = 0
    generation: str = ""


class Inventory:
    """Sells one item of a sale, and signs its ledger with the instance's name.

    Attributes:
        instance: that name.
        sold_out: the sold-out check of the item.
    """

    def __init__(self, sale: Sale, *, instance: str, item: str = DEFAULT_ITEM) -> None:
        self._sale = sale
        self._item = item
        self.instance = instance
        k = sale.keys_of[item]
        counters = [k.stock, k.lucky, k.orders, k.fence, k.generation, k.answers]
        self._watched = k.stock
        self._read = partial(Script(sale.client, "read"), [k.stock, k.fence, k.generation, k.answers])
        self._write_script = Script(sale.client, "write")
        self._write = partial(self._write_script, counters)
        self._sell = partial(Script(sale.client, "sell"), counters)
        self.sold_out = SoldOutCheck(lambda purchase: self.read(purchase).receipt)

    def read(self, purchase: Purchase, *, fence: Token | None = None, pipe: Pipeline | None = None) -> Reading:
        """The stock, or the receipt of a purchase that is decided already.

        A `fence` shuts out every lower token from here on. A `pipe` is one that is `watching`.

        Raises:
            FencedOff: a higher token was here before.
        """
        generation = self._sale.generation(self._item)
        entry = purchase.entry(self.instance) if purchase.key else ""
        with purchase.timing("read"):
            asked = [generation, fence_text(fence), purchase.key or "", entry]
            status, found = self._read(asked, pipe=pipe)
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
        entry, left = purchase.entry(self.instance), reading.stock - 1
        with purchase.timing("commit"), sending():
            asked: list[str | int] = [reading.generation, fence_text(fence), purchase.key or "", entry, left]
            status, found = self._in_transaction(pipe, asked) if pipe else self._write(asked)
        if status == "generation":
            raise SaleReset("the sale was reset while this purchase was being made") if found else SaleLost
        if status == "fenced":
            raise fenced_off(fence, found)
        return settled(purchase, status, found)

    def _in_transaction(self, pipe: Pipeline, asked: Sequence[str | int]) -> Any:
        pipe.multi()
        self._write(asked, pipe=pipe)
        try:
            return pipe.execute()[0]
        except NoScriptError:
            self._write_script.load()
            raise redis.WatchError("Redis has to be sent the script first") from None

    @contextmanager
    def watching(self) -> Iterator[Pipeline]:
        """A pipeline for `read` and `write` that writes nothing if the stock is touched from now on."""
        if not self._sale.generation(self._item):  # or its opening would touch the stock, after the thinking perhaps
            found = self._sale.client.get(self._sale.keys_of[self._item].generation)
            self._sale.reconcile(self._item, str(found or ""))
        with self._sale.client.pipeline() as pipe:
            pipe.watch(self._watched)  # type: ignore[no-untyped-call]
            yield pipe

    def sell(self, purchase: Purchase) -> Receipt:
        """The whole purchase in one script; raises as `sell_group`, and `KeyReused`."""
        (result,) = self.sell_group([purchase])
        if isinstance(result, KeyReused):
            raise result
        return result

    def sell_group(self, purchases: Sequence[Purchase], *, fence: Token | None = None) -> list[Receipt | KeyReused]:
        """Many purchases, read and written in one script; what came of each, in the order given.

        Raises:
            FencedOff: a higher token than `fence` was here before; nothing was written.
            InDoubt: the answer was lost, for all of them.
        """
        wanted = [text for purchase in purchases for text in (purchase.key or "", purchase.entry(self.instance))]
        with ExitStack() as timing, sending():
            for purchase in purchases:
                timing.enter_context(purchase.timing("commit"))
            status, *found = self._sell([self._sale.generation(self._item), fence_text(fence), "sold_out", *wanted])
        if status == "generation":
            self._sale.reconcile(self._item, found[0])
            return self.sell_group(purchases, fence=fence)
        if status == "fenced":
            raise fenced_off(fence, found[0])
        return [_one_of_many(*each) for each in zip(purchases, found[::2], found[1::2], strict=True)]


def _one_of_many(purchase: Purchase, status: str, found: str) -> Receipt | KeyReused:
    """An error that concerns one purchase of a group, and not the others."""
    try:
        return settled(purchase, status, found)
    except KeyReused as error:
        return error
