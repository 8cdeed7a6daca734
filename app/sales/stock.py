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
from itertools import starmap
from typing import Any, NamedTuple

import redis
from redis.client import Pipeline

from app.contract.clock import now_ns
from app.contract.keys import DEFAULT_ITEM
from app.contract.orders import token_in
from app.contract.outcomes import Outcome
from app.sales.purchase import Purchase, Receipt, Section, Token, fence_text
from app.sales.redis_client import LUA, NotSent, Script
from app.sales.refusals import FencedOff, InDoubt, KeyReused, PurchaseError, SaleDamaged, SaleLost, SaleReset
from app.sales.sale import Sale

STALE = "the sale was reset while this purchase was waiting"
READ, WRITE, SELL = (Script(LUA / f"{name}.lua") for name in ("read", "write", "sell"))


@dataclass(frozen=True, slots=True)
class Reading:
    """The receipt if the read decided the purchase; otherwise stock and generation, which the write needs."""

    receipt: Receipt | None = None
    stock: int = 0
    generation: str = ""


class OtherGeneration(Exception):
    """Redis has the generation `found`, or no sale (""): the script did nothing. `now_us` is Redis's clock."""

    def __init__(self, found: str, now_us: str) -> None:
        self.found, self.now_us = found, now_us


class Decision(NamedTuple):
    """What a script says of one purchase: how many are left, or ``replay`` and the first answer to its key.

    Attributes:
        status: ``sold``, ``sold_out``, ``replay``, or ``open`` after a read that decides nothing.
    """

    status: str
    value: str

    def receipt(self, purchase: Purchase, token: Token | None) -> Receipt:
        """The receipt, unless it is open.

        Raises:
            KeyReused: the answer of the idempotency key belongs to another purchase.
        """
        if self.status == "replay":
            return replayed(purchase, self.value)
        outcome = Outcome(self.status)
        order = purchase.order if outcome is Outcome.SOLD else None
        return Receipt(outcome, purchase.guard, order=order, stock=int(self.value), token=token)


def decisions(answer: Sequence[str], fence: Token | None) -> list[Decision]:
    """The answer of a script under the token `fence`, for each of its purchases.

    Raises:
        FencedOff: Redis has seen a higher token.
        SaleDamaged: a value in Redis is not a number.
        OtherGeneration: the purchase was made for another sale.
    """
    status, *values = answer
    if status == "fenced":
        seen, advice = values[0], "" if ":" in values[0] else "; if etcd was wiped, reset the sale"
        raise FencedOff(f"token {token_in(fence_text(fence))} is fenced off, {token_in(seen)} was here before{advice}")
    if status == "damaged":
        raise SaleDamaged(values[0])
    if status == "generation":
        raise OtherGeneration(*values)
    pairs = iter(values if status == "decided" else answer)
    return list(starmap(Decision, zip(pairs, pairs, strict=True)))


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
            reading = self._look(section, fence, pipe)
        finally:
            section.read_s = time.monotonic() - began
        section.receipt = reading.receipt
        if reading.receipt is None:
            section.stock = reading.stock
        section.purchase.listener.read(section)
        return reading

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
                answer = self._run_queued(WRITE, args, pipe) if pipe else WRITE.run(self._client, self._keys, args)
            (decision,) = decisions(answer, fence)
        except OtherGeneration as other:
            if other.found and int(other.found) > int(reading.generation):
                raise SaleReset("the sale was reset while this purchase was being made") from None
            raise SaleLost from None
        finally:
            section.commit_s = time.monotonic() - began
        section.receipt = receipt = decision.receipt(purchase, section.token)
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
                    answer = SELL.run(self._client, self._keys, args)
                decided = iter(decisions(answer, fence))
                break
            except OtherGeneration as other:
                self._sale.follow(generation, other.found, other.now_us, began)
            finally:
                for section in current:
                    section.commit_at, section.commit_s = at, time.monotonic() - began
        return [
            _one_of_many(each, next(decided)) if each.purchase.began >= begun_at else SaleReset(STALE)
            for each in sections
        ]

    def note_sold_out(self, section: Section) -> bool:
        """If the section found no stock, remember that; returns whether it did."""
        receipt = section.receipt
        is_sold_out = receipt is not None and receipt.outcome is Outcome.SOLD_OUT and not receipt.replayed
        if is_sold_out:
            self.sold_out_at = section.entered  # its read was sent later
        return is_sold_out

    def known_sold_out(self, purchase: Purchase) -> Receipt | None:
        """The receipt for "sold out" if an empty stock was seen before and still is; otherwise `None`."""
        if self.sold_out_at is None:
            return None
        if purchase.began < self.sold_out_at and not purchase.key:
            return Receipt(Outcome.SOLD_OUT, purchase.guard, stock=0)
        section = Section(purchase)
        section.receipt = self._look(section).receipt
        if section.receipt is None:
            self.sold_out_at = None
        self.note_sold_out(section)
        return section.receipt

    def _look(self, section: Section, fence: Token | None = None, pipe: Pipeline | None = None) -> Reading:
        """Run ``read.lua`` in the generation that Redis has."""
        purchase, key = section.purchase, section.purchase.key or ""
        while True:
            generation, sent = self._sale.generation, time.monotonic()
            if purchase.began < self._sale.begun_at:
                raise SaleReset(STALE)
            args = [generation, fence_text(fence, section.numbering), key, purchase.entry() if key else ""]
            try:
                (decision,) = decisions(READ.run(pipe or self._client, self._keys, args), fence)
            except OtherGeneration as other:
                self._sale.follow(generation, other.found, other.now_us, sent)
                continue
            if decision.status == "open":
                return Reading(stock=int(decision.value), generation=generation)
            return Reading(decision.receipt(purchase, section.token), generation=generation)


def _one_of_many(section: Section, decision: Decision) -> Receipt | PurchaseError:
    """The receipt or the error of one purchase in a group; an error does not affect the others."""
    try:
        section.receipt = decision.receipt(section.purchase, section.token)
    except PurchaseError as error:
        return error
    return section.receipt


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
