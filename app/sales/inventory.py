"""Selling one item, in four ways of writing it down.

Plain (`read`, `write`): GET, then SET, INCR, RPUSH. Anybody may come in between: that is the race the guards are for.
Fenced (`fenced_read`, `fenced_write`): the same, refused to whoever has a lower token than somebody before.
Group (`fenced_group`): many purchases under one token, read and written in one script.
Atomic (`sell`): one script.

Once a fenced read or a group has seen the item sold out, `short_cut` says so without a lock.

The read also fetches the first answer that the idempotency key got, and the write stores the answer together with the
order: a retry finds both or neither, and nothing is bought twice.

Error handling: `Refused`, `redis.ConnectionError`, `redis.TimeoutError`, `FencedOff` and `SaleReset` mean that no order
was written: at most "sold out" was kept for the idempotency key, and a retry is told so. `InDoubt` means that a write
was sent and its answer lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import redis
from redis.client import Pipeline

from app.sales.purchase import DEFAULT_ITEM, Outcome, Purchase, Receipt
from app.sales.refusals import KeyReused, SaleReset
from app.sales.sale import Sale
from app.sales.script_results import decided, fenced_off, replayed, sending, settled
from app.sales.sold_out import SoldOutCheck
from app.sales.tokens import fence_text


@dataclass(frozen=True, slots=True)
class Reading:
    """What the read found: the receipt, if nothing is left to do, or else what the write needs."""

    receipt: Receipt | None = None
    stock: int = 0
    generation: str = ""


class Inventory:
    """Sells one item of a sale, and signs its ledger with the instance's name."""

    def __init__(self, sale: Sale, *, instance: str, item: str = DEFAULT_ITEM) -> None:
        self._sale = sale
        self._item = item
        self._client = sale.client
        self._instance = instance
        self._keys = k = sale.keys_of[item]
        self._fenced_read = sale.script("fenced_read", k.stock, k.fence, k.generation, k.answers)
        self._fenced_write = sale.script("fenced_write", k.stock, k.lucky, k.orders, k.fence, k.generation, k.answers)
        self._fenced_group = sale.script("fenced_group", k.stock, k.lucky, k.orders, k.fence, k.generation, k.answers)
        self._sell = sale.script("sell", k.stock, k.lucky, k.orders, k.generation, k.answers)
        self.sold_out_check = SoldOutCheck(sale, instance=instance, item=item)

    def read(self, purchase: Purchase, pipe: Pipeline | None = None) -> Reading:
        """The plain read, through a pipeline that watches where one is given.

        Raises:
            redis.WatchError: there is, or was, nothing left, and `pipe` saw that change; nothing was written.
        """
        with purchase.timing("read"):
            stock = (pipe or self._client).get(self._keys.stock)
            left = int(stock or 0)
            answer = self._first_answer(purchase.key, pipe) if purchase.key and left > 0 else None
        if stock is None:
            self._sale.open_if_closed(self._item)
            if pipe:
                raise redis.WatchError("the sale has just begun")
            return self.read(purchase)
        if answer is not None:
            return Reading(replayed(purchase, str(answer)))
        return Reading(stock=left) if left > 0 else Reading(self._nothing_left(purchase, left, pipe))

    def _first_answer(self, key: str, pipe: Pipeline | None) -> str | bytes | None:
        if pipe:  # the same key may be buying another item
            pipe.watch(self._keys.answers)  # type: ignore[no-untyped-call]
        return (pipe or self._client).hget(self._keys.answers, key)

    def _nothing_left(self, purchase: Purchase, stock: int, pipe: Pipeline | None) -> Receipt:
        """Say "sold out", unless the idempotency key has an answer already."""
        if not purchase.key:
            return decided(purchase, Outcome.SOLD_OUT, stock)
        with pipe or self._client.pipeline() as pipe:
            pipe.multi()
            pipe.hsetnx(self._keys.answers, purchase.key, self._answer(purchase, Outcome.SOLD_OUT, stock))
            pipe.hget(self._keys.answers, purchase.key)
            is_first, answer = pipe.execute()
        return decided(purchase, Outcome.SOLD_OUT, stock) if is_first else replayed(purchase, answer)

    def write(self, purchase: Purchase, reading: Reading, pipe: Pipeline | None = None) -> Receipt:
        """The plain write, in one MULTI: order and answer land together or not at all.

        The transaction does not close the race, because the read was outside of it. Unless `pipe` watches, the write
        lands even in a sale that was reset since the read, which the fenced write refuses; and of two that race with
        one idempotency key both may sell: the key keeps the first answer.

        Raises:
            redis.WatchError: what `pipe` watched has changed since the read; nothing was written.
        """
        left = reading.stock - 1
        with purchase.timing("commit"), sending(), pipe or self._client.pipeline() as pipe:
            pipe.multi()
            pipe.set(self._keys.stock, left)
            pipe.incr(self._keys.lucky)
            pipe.rpush(self._keys.orders, purchase.entry(self._instance))
            if purchase.key:
                pipe.hsetnx(self._keys.answers, purchase.key, self._answer(purchase, Outcome.SOLD, left))
            pipe.execute()
        return decided(purchase, Outcome.SOLD, left)

    @contextmanager
    def watching(self) -> Iterator[Pipeline]:
        """A pipeline for `read` and `write` that writes nothing if anybody touches the stock from now on."""
        with self._client.pipeline() as pipe:
            pipe.watch(self._keys.stock)  # type: ignore[no-untyped-call]
            yield pipe

    def fenced_read(self, purchase: Purchase) -> Reading:
        """The read under `purchase.token`, which shuts out every lower token from here on.

        Raises:
            FencedOff: a higher token was here before.
        """
        asked = time.monotonic()
        with purchase.timing("read"):
            key, entry = (purchase.key, purchase.entry(self._instance)) if purchase.key else ("", "")
            status, *found = self._fenced_read(fence_text(purchase.token), key, entry)
        if status == "fenced":
            raise fenced_off(purchase.token, found[0])
        if status == "closed":
            self._sale.open_if_closed(self._item)
            return self.fenced_read(purchase)
        if status == "open":
            return Reading(stock=int(found[0]), generation=found[1])
        if status == "sold_out":
            self.sold_out_check.open(asked, found[0])
        return Reading(settled(purchase, status, found[0]))

    def fenced_write(self, purchase: Purchase, reading: Reading) -> Receipt:
        """The write under `purchase.token`.

        Raises:
            FencedOff: a higher token was here since the read.
            SaleReset: the sale was reset since the read.
            InDoubt: the answer was lost.
        """
        left = reading.stock - 1
        entry = purchase.entry(self._instance)
        with purchase.timing("commit"), sending():
            status, *found = self._fenced_write(
                fence_text(purchase.token), reading.generation, left, entry, purchase.key or ""
            )
        if status == "fenced":
            raise fenced_off(purchase.token, found[0])
        if status == "reset":
            raise SaleReset("the sale was reset while this purchase was being made")
        if status == "replay":
            return replayed(purchase, found[0])
        return decided(purchase, Outcome.SOLD, left)

    def fenced_group(self, purchases: Sequence[Purchase]) -> list[Receipt | KeyReused]:
        """Many purchases that share one token, read and written in one step; what came of each, in the order given.

        No reset can come between read and write, so there is no generation to compare.

        Raises:
            FencedOff: a higher token was here before; of none of them anything was written.
            InDoubt: the answer was lost, for all of them.
        """
        token = purchases[0].token
        wanted = [text for purchase in purchases for text in (purchase.key or "", purchase.entry(self._instance))]
        asked = time.monotonic()
        with ExitStack() as timing, sending():
            for purchase in purchases:
                timing.enter_context(purchase.timing("commit"))
            status, *found = self._fenced_group(fence_text(token), *wanted)
        if status == "fenced":
            raise fenced_off(token, found[0])
        if status == "closed":
            self._sale.open_if_closed(self._item)
            return self.fenced_group(purchases)
        left = dict(zip(found[::2], found[1::2], strict=True)).get("sold_out")
        if left is not None:
            self.sold_out_check.open(asked, left)
        return [_one_of_many(*each) for each in zip(purchases, found[::2], found[1::2], strict=True)]

    def sell(self, purchase: Purchase) -> Receipt:
        """The whole purchase in one atomic script.

        Raises:
            InDoubt: the answer was lost.
        """
        with purchase.timing("commit"), sending():
            status, *found = self._sell(purchase.key or "", purchase.entry(self._instance))
        if status == "closed":
            self._sale.open_if_closed(self._item)
            return self.sell(purchase)
        return settled(purchase, status, found[0])

    def _answer(self, purchase: Purchase, outcome: Outcome, stock: int) -> str:
        entry = purchase.entry(self._instance)
        return f'{{"outcome":"{outcome.value}","stock":{stock},"entry":{entry}}}'


def _one_of_many(purchase: Purchase, status: str, found: str) -> Receipt | KeyReused:
    """An error that concerns one purchase of a group, and not the others."""
    try:
        return settled(purchase, status, found)
    except KeyReused as error:
        return error
