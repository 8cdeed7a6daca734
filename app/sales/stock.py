"""The stock of one item: read, think, write; or all in one script.

Without a fence, a purchase writes the stock that it read less one, although others may have written in between: that is
the race that guards prevent. With a fence, read and write are refused if Redis has seen a higher token.

The read also fetches the first answer to the idempotency key, and the write stores the answer together with the order.
So a retry finds both or neither, and nothing is bought twice.

The sold-out check: once a purchase under the lock has seen an empty stock, later ones look at the stock before they
wait for the lock. If the stock was seen empty after a request started, that request is sold out, too, and need not
look. (A request with an idempotency key always looks, because its answer has to be kept.) The stock in Redis decides,
so a reset or a delivery needs no correction.

Error handling: `Refused`, `redis.ConnectionError`, `redis.TimeoutError`, `FencedOff`, `SaleReset`, `SaleLost` and
`EtcdError` mean that no order was written: at most "sold out" was kept for the idempotency key. `InDoubt` means
that a write was sent, but its answer was lost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import redis
from redis.client import Pipeline

from app.contract.clock import now_ns
from app.contract.keys import DEFAULT_ITEM
from app.contract.orders import token_in
from app.contract.outcomes import Outcome
from app.sales.purchase import Purchase, Receipt, Section, Token
from app.sales.redis_client import LUA, NotSent, Script
from app.sales.refusals import FencedOff, InDoubt, KeyReused, PurchaseError, SaleDamaged, SaleLost, SaleReset
from app.sales.sale import Sale
from lock.recipes.cohort import CohortToken

REFUSED = ("fenced", "damaged")
STALE = "the sale was reset while this purchase was waiting"
READ, WRITE, SELL = (Script(LUA / f"{name}.lua") for name in ("read", "write", "sell"))


@dataclass(frozen=True, slots=True)
class Reading:
    """The receipt if the read decided the purchase; otherwise stock and generation, which the write needs."""

    receipt: Receipt | None = None
    stock: int = 0
    generation: str = ""


class Stock:
    """Sells one item of a sale."""

    def __init__(self, sale: Sale, *, item: str = DEFAULT_ITEM) -> None:
        self._sale = sale
        self._client, k = sale.client, sale.keys_of[item]
        self._keys = [k.stock, k.lucky, k.orders, k.fence, k.generation, k.answers]
        self.sold_out_at: float | None = None  # when the last read that found no stock was sent (`time.monotonic`)

    def read(self, section: Section, *, fence: Token | None = None, pipe: Pipeline | None = None) -> Reading:
        """Read the stock, or the receipt if the purchase is already decided.

        Args:
            section: the critical section of the purchase.
            fence: a token; from now on every lower token is refused.
            pipe: a pipeline of `watching`.

        Raises:
            FencedOff: Redis has seen a higher token.
        """
        began, section.read_at = time.monotonic(), now_ns()
        try:
            status, value, generation = self._look(section.purchase, fence, pipe, numbering=section.numbering)
        finally:
            section.read_s = time.monotonic() - began
        if status == "open":
            section.stock = int(value)
        else:
            section.receipt = receipt_of(section.purchase, status, value, token=section.token)
        section.purchase.listener.read(section)
        return Reading(section.receipt, int(value) if status == "open" else 0, generation)

    def write(
        self, section: Section, reading: Reading, *, fence: Token | None = None, pipe: Pipeline | None = None
    ) -> Receipt:
        """Take one item from the stock that was read: one script writes counter, ledger and answer.

        Raises:
            FencedOff: Redis has seen a higher token than `fence` since the read.
            SaleReset, SaleLost: the sale was reset, or lost, since the read.
            InDoubt: the answer was lost.
            redis.WatchError: the stock has changed since `watching`; nothing was written.
        """
        purchase = section.purchase
        purchase.listener.write(section)
        args: list[str | int] = [reading.generation, fence_text(fence, section.numbering), purchase.key or ""]
        args += [purchase.entry(section.token), reading.stock - 1]
        began, section.commit_at = time.monotonic(), now_ns()
        try:
            with sending():
                status, *values = (
                    self._run_queued(WRITE, args, pipe) if pipe else WRITE.run(self._client, self._keys, args)
                )
        finally:
            section.commit_s = time.monotonic() - began
        if status == "generation":
            is_reset = values[0] and int(values[0]) > int(reading.generation)
            raise SaleReset("the sale was reset while this purchase was being made") if is_reset else SaleLost
        if status in REFUSED:
            raise refusal(status, values[0], fence)
        section.receipt = receipt = receipt_of(purchase, status, values[0], token=section.token)
        return receipt

    def _run_queued(self, script: Script, args: list[str | int], pipe: Pipeline) -> Any:
        """Run the script in a transaction that fails if the watched stock has changed; returns the script's answer."""
        pipe.multi()
        script.run(pipe, self._keys, args)
        return pipe.execute()[0]

    @contextmanager
    def watching(self) -> Iterator[Pipeline]:
        """A pipeline for `read` and `write` that writes nothing if the stock changes after this call."""
        with self._client.pipeline() as pipe:
            pipe.watch(self._keys[0])  # type: ignore[no-untyped-call]
            yield pipe

    def sell(self, section: Section) -> Receipt:
        """The whole purchase in one script; raises as `sell_group`, `SaleReset` and `KeyReused`."""
        (result,) = self.sell_group([section])
        if isinstance(result, Exception):
            raise result
        return result

    def sell_group(self, sections: Sequence[Section], *, fence: Token | None = None) -> list[Receipt | PurchaseError]:
        """Read and write many purchases in one script; returns the result of each, in the order given.

        Errors that concern one purchase are its result: `KeyReused`, `SaleReset`.

        Raises:
            FencedOff: Redis has seen a higher token than `fence`; nothing was written.
            InDoubt: the answer was lost, so all purchases are in doubt.
        """
        for section in sections:
            section.purchase.listener.write(section)
        while True:
            generation, begun_at = self._sale.generation, self._sale.begun_at
            args = [generation, fence_text(fence, sections[0].numbering)]
            current = [each for each in sections if each.purchase.began >= begun_at]
            args += [text for each in current for text in (each.purchase.key or "", each.purchase.entry(each.token))]
            began, at = time.monotonic(), now_ns()
            try:
                with sending():
                    status, *values = SELL.run(self._client, self._keys, args)
            finally:
                for section in current:
                    section.commit_at, section.commit_s = at, time.monotonic() - began
            if status in REFUSED:
                raise refusal(status, values[0], fence)
            if status != "generation":
                break
            self._sale.follow(generation, values[0], values[1], began)
        decisions = iter(zip(values[::2], values[1::2], strict=True))
        return [
            _one_of_many(each, next(decisions)) if each.purchase.began >= begun_at else SaleReset(STALE)
            for each in sections
        ]

    def note_sold_out(self, section: Section) -> bool:
        """If the section found no stock, remember that; returns whether it did."""
        return self._note_empty(section.receipt, section.entered)

    def known_sold_out(self, purchase: Purchase) -> Receipt | None:
        """The receipt for "sold out" if an empty stock was seen before and still is; otherwise None."""
        if self.sold_out_at is None:
            return None
        if purchase.began < self.sold_out_at and not purchase.key:
            return Receipt(Outcome.SOLD_OUT, purchase.guard, stock=0)
        sent = time.monotonic()
        status, value, _ = self._look(purchase)
        receipt = None if status == "open" else receipt_of(purchase, status, value)
        if receipt is None:
            self.sold_out_at = None
        self._note_empty(receipt, sent)
        return receipt

    def _look(
        self, purchase: Purchase, fence: Token | None = None, pipe: Pipeline | None = None, *, numbering: str = ""
    ) -> tuple[str, str, str]:
        """The status and value that ``read.lua`` returns, and the generation in which it ran."""
        key = purchase.key or ""
        while True:
            generation, sent = self._sale.generation, time.monotonic()
            if purchase.began < self._sale.begun_at:
                raise SaleReset(STALE)
            args = [generation, fence_text(fence, numbering), key, purchase.entry() if key else ""]
            status, *values = READ.run(pipe or self._client, self._keys, args)
            if status in REFUSED:
                raise refusal(status, values[0], fence)
            if status != "generation":
                return status, values[0], generation
            self._sale.follow(generation, values[0], values[1], sent)

    def _note_empty(self, receipt: Receipt | None, sent: float) -> bool:
        """Note that a read, sent at this time or later, found no stock; returns whether it did."""
        is_sold_out = receipt is not None and receipt.outcome is Outcome.SOLD_OUT and not receipt.replayed
        if is_sold_out:
            self.sold_out_at = sent
        return is_sold_out


def _one_of_many(section: Section, decision: tuple[str, str]) -> Receipt | PurchaseError:
    """The receipt or the error of one purchase in a group; an error does not affect the others."""
    try:
        section.receipt = receipt_of(section.purchase, *decision, token=section.token)
    except PurchaseError as error:
        return error
    return section.receipt


def receipt_of(purchase: Purchase, status: str, value: str, *, token: Token | None = None) -> Receipt:
    """The receipt for the decision of a script: ``sold`` or ``sold_out``, and what is left; or ``replay``.

    Raises:
        KeyReused: the answer of the idempotency key belongs to another purchase.
    """
    if status == "replay":
        return replayed(purchase, value)
    outcome = Outcome(status)
    order = purchase.order if outcome is Outcome.SOLD else None
    return Receipt(outcome, purchase.guard, order=order, stock=int(value), token=token)


def replayed(purchase: Purchase, answer: str) -> Receipt:
    """The receipt from the first answer to the idempotency key.

    Raises:
        KeyReused: the answer belongs to another buyer or item.
    """
    first = json.loads(answer)
    entry = first["entry"]
    if (entry["buyer"], entry["item"]) != (purchase.buyer, purchase.item):
        raise KeyReused("this Idempotency-Key belongs to another purchase")
    outcome = Outcome(first["outcome"])
    order = entry["order"] if outcome is Outcome.SOLD else None
    return Receipt(outcome, entry["guard"], order=order, stock=first["stock"], token=entry["token"], replayed=True)


# Fencing tokens rise from holder to holder, so that Redis can refuse a late holder. A token is the create revision of
# the holder's key in etcd, or the pair (create revision, turn) if a process hands one hold to many turns. Holds of one
# name never share a create revision. In JSON a pair is a list, and compares like a tuple: [7, 2] < [7, 10] < [8, 1].
# A guard whose lock is not etcd's numbers its tokens itself. Its fence says so, and is compared with no token of etcd.


def fence_text(token: Token | None, numbering: str = "") -> str:
    """A token as the text that Redis compares, because Lua's numbers are exact only up to 2^53; empty for None.

    A `numbering` other than etcd's stands before it: ``redis-fenced:00000000000000000007``.
    """
    if token is None:
        return ""
    number = f"{token.create_revision:020d}.{token.turn:010d}" if isinstance(token, CohortToken) else f"{token:020d}"
    return f"{numbering}:{number}" if numbering else number


def refusal(status: str, value: str, fence: Token | None) -> PurchaseError:
    """The error for a status that refuses the purchase for good, one of `REFUSED`."""
    return fenced_off(fence, value) if status == "fenced" else SaleDamaged(value)


def fenced_off(token: Token | None, fence: str) -> FencedOff:
    """The error for a token that is lower than `fence`."""
    advice = "" if ":" in fence else "; if etcd was wiped, reset the sale"
    return FencedOff(f"token {token_in(fence_text(token))} is fenced off, {token_in(fence)} was here before{advice}")


@contextmanager
def sending() -> Iterator[None]:
    """Send a command that writes inside this context.

    Raises:
        InDoubt: the answer was lost, so the command may have been executed or not.
    """
    try:
        yield
    except (NotSent, redis.AuthenticationError, redis.BusyLoadingError):
        raise
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise InDoubt(f"Redis did not say whether the purchase was made ({error})") from error
