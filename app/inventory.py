"""Selling one item, in three ways of writing it down.

Plain (`read`, `write`): GET, then SET, INCR, RPUSH. Anybody may come in between: that is the race the guards are for.
Fenced (`fenced_read`, `fenced_write`): the same, refused to whoever has a lower token than somebody before.
Atomic (`sell`): one script.

The read also fetches the first answer that the idempotency key got, and the write stores the answer together with the
order: a retry finds both or neither, and nothing is bought twice.

Error handling: `redis.ConnectionError`, `redis.TimeoutError`, `FencedOff` and `SaleReset` mean that nothing was
written; `InDoubt` that a write was sent and its answer lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import redis
from redis.client import Pipeline

from app.purchase import Outcome, Purchase, Receipt
from app.redis_client import NotSent
from app.refusals import FencedOff, InDoubt, KeyReused, SaleReset
from app.sale import Sale


@dataclass(frozen=True, slots=True)
class Reading:
    """What the read found: the receipt, if nothing is left to do, or else what the write needs."""

    receipt: Receipt | None = None
    stock: int = 0
    generation: str = ""


class Inventory:
    """Sells the items of one sale, and signs the ledger with the instance's name."""

    def __init__(self, sale: Sale, *, instance: str) -> None:
        self._sale = sale
        self._client = sale.client
        self._instance = instance
        self._keys = k = sale.keys
        self._fenced_read = sale.script("fenced_read", k.stock, k.fence, k.generation, k.answers)
        self._fenced_write = sale.script("fenced_write", k.stock, k.lucky, k.orders, k.fence, k.generation, k.answers)
        self._sell = sale.script("sell", k.stock, k.lucky, k.orders, k.answers)

    def read(self, purchase: Purchase, client: redis.Redis | None = None) -> Reading:
        """The plain read, through a pipeline that watches where one is given."""
        client = client or self._client
        with purchase.timing("read"):
            answer = client.hget(self._keys.answers, purchase.key) if purchase.key else None
            stock = client.get(self._keys.stock)
        if answer is not None:
            return Reading(_replay(purchase, str(answer)))
        if stock is None:
            self._sale.open_if_closed()
            return self.read(purchase, client)
        return Reading(stock=int(stock)) if int(stock) > 0 else Reading(self._sold_out(purchase, int(stock), client))

    def _sold_out(self, purchase: Purchase, stock: int, client: redis.Redis) -> Receipt:
        if purchase.key:
            client.hset(self._keys.answers, purchase.key, self._answer(purchase, Outcome.SOLD_OUT, stock))
        return _receipt(purchase, Outcome.SOLD_OUT, stock)

    def write(self, purchase: Purchase, reading: Reading, pipe: Pipeline | None = None) -> Receipt:
        """The plain write, in one MULTI: order and answer land together or not at all.

        The transaction does not close the race, because the read was outside of it.

        Raises:
            redis.WatchError: `pipe` watched the stock, and it changed since the read; nothing was written.
        """
        left = reading.stock - 1
        with purchase.timing("commit"), _sending(), pipe or self._client.pipeline() as pipe:
            if pipe.watching:
                pipe.multi()
            pipe.set(self._keys.stock, left)
            pipe.incr(self._keys.lucky)
            pipe.rpush(self._keys.orders, purchase.entry(self._instance))
            if purchase.key:
                pipe.hset(self._keys.answers, purchase.key, self._answer(purchase, Outcome.SOLD, left))
            pipe.execute()
        return _receipt(purchase, Outcome.SOLD, left)

    @contextmanager
    def watching(self) -> Iterator[Pipeline]:
        """A pipeline for `read` and `write` whose write fails if anybody touches the stock from now on."""
        with self._client.pipeline() as pipe:
            pipe.watch(self._keys.stock)  # type: ignore[no-untyped-call]
            yield pipe

    def fenced_read(self, purchase: Purchase) -> Reading:
        """The read under `purchase.token`, which shuts out every lower token from here on.

        Raises:
            FencedOff: a higher token was here before.
        """
        with purchase.timing("read"):
            key, entry = (purchase.key, purchase.entry(self._instance)) if purchase.key else ("", "")
            status, *found = self._fenced_read(_fence_text(purchase.token), key, entry)
        if status == "fenced":
            raise _fenced_off(purchase, found[0])
        if status == "closed":
            self._sale.open_if_closed()
            return self.fenced_read(purchase)
        if status == "open":
            return Reading(stock=int(found[0]), generation=found[1])
        return Reading(_settled(purchase, status, found[0]))

    def fenced_write(self, purchase: Purchase, reading: Reading) -> Receipt:
        """The write under `purchase.token`.

        Raises:
            FencedOff: a higher token was here since the read.
            SaleReset: the sale was reset since the read.
            InDoubt: the answer was lost.
        """
        left = reading.stock - 1
        entry = purchase.entry(self._instance)
        with purchase.timing("commit"), _sending():
            status, *found = self._fenced_write(
                _fence_text(purchase.token), reading.generation, left, entry, purchase.key or ""
            )
        if status == "fenced":
            raise _fenced_off(purchase, found[0])
        if status == "reset":
            raise SaleReset("the sale was reset while this purchase was being made")
        return _receipt(purchase, Outcome.SOLD, left)

    def sell(self, purchase: Purchase) -> Receipt:
        """The whole purchase in one atomic script.

        Raises:
            InDoubt: the answer was lost.
        """
        with purchase.timing("commit"), _sending():
            status, *found = self._sell(purchase.key or "", purchase.entry(self._instance))
        if status == "closed":
            self._sale.open_if_closed()
            return self.sell(purchase)
        return _settled(purchase, status, found[0])

    def _answer(self, purchase: Purchase, outcome: Outcome, stock: int) -> str:
        entry = purchase.entry(self._instance)
        return f'{{"outcome":"{outcome.value}","stock":{stock},"entry":{entry}}}'


def _settled(purchase: Purchase, status: str, found: str) -> Receipt:
    return _replay(purchase, found) if status == "replay" else _receipt(purchase, Outcome(status), int(found))


def _receipt(purchase: Purchase, outcome: Outcome, stock: int) -> Receipt:
    order = purchase.order if outcome is Outcome.SOLD else None
    return _decided(purchase, Receipt(outcome, purchase.guard, order=order, stock=stock, token=purchase.token))


def _replay(purchase: Purchase, answer: str) -> Receipt:
    first = json.loads(answer)
    entry, outcome = first["entry"], Outcome(first["outcome"])
    if entry["buyer"] != purchase.buyer:
        raise KeyReused("this Idempotency-Key belongs to the purchase of another buyer")
    order = entry["order"] if outcome is Outcome.SOLD else None
    receipt = Receipt(outcome, entry["guard"], order=order, stock=first["stock"], token=entry["token"], replayed=True)
    return _decided(purchase, receipt)


def _decided(purchase: Purchase, receipt: Receipt) -> Receipt:
    purchase.decided = receipt
    return receipt


def _fence_text(token: int | None) -> str:
    """A token as Redis compares it: as text, because Lua's numbers are exact only up to 2^53."""
    if token is None:
        raise ValueError("a fenced purchase needs a token: enter it with purchase.inside(token=...)")
    return f"{token:020d}"


def _fenced_off(purchase: Purchase, fence: str) -> FencedOff:
    return FencedOff(
        f"token {purchase.token} is fenced off, {int(fence)} was here before; if etcd was wiped, reset the sale"
    )


@contextmanager
def _sending() -> Iterator[None]:
    """A command inside writes: if its answer is lost, nobody can say whether it was executed."""
    try:
        yield
    except (NotSent, redis.BusyLoadingError):
        raise
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise InDoubt(f"Redis did not say whether the purchase was made ({error})") from error
