"""The Lua scripts, as Redis runs them; their results as receipts and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha1
from pathlib import Path
from typing import Any

import redis
from redis.client import Pipeline
from redis.exceptions import NoScriptError

from app.sales.purchase import CART, Outcome, Purchase, Receipt
from app.sales.redis_client import Client, NotSent
from app.sales.refusals import FencedOff, InDoubt, KeyReused
from app.sales.tokens import Token, Tokens, fence_text, shown

LUA = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "lua").glob("*.lua")}
TEXTS = {name: LUA["common"] + text for name, text in LUA.items() if name != "common"}
SHAS = {name: sha1(text.encode()).hexdigest() for name, text in TEXTS.items()}
Call = tuple[Sequence[str], Sequence[str | int]]  # keys and arguments


def run(client: redis.Redis, name: str, keys: Sequence[str], args: Sequence[str | int]) -> Any:
    """Run one of ``lua/*.lua``: by its hash if Redis knows it, else by its text, and always so in a pipeline."""
    if not isinstance(client, Pipeline):
        with suppress(NoScriptError):
            return client.evalsha(SHAS[name], len(keys), *keys, *args)
    return client.eval(TEXTS[name], len(keys), *keys, *args)


def run_together(client: Client, name: str, calls: Sequence[Call]) -> list[Any]:
    """Run a script with all these keys and arguments in one step; the answers."""
    if len(calls) == 1:
        return [run(client, name, *calls[0])]
    scripts = [("EVAL", TEXTS[name], len(keys), *keys, *args) for keys, args in calls]
    answers: list[Any] = client.execute_together(("MULTI",), *scripts, ("EXEC",))[-1]
    for error in answers:
        if isinstance(error, Exception):
            raise error
    return answers


def settled(purchase: Purchase, status: str, found: str) -> Receipt:
    """The receipt for the decision of a script: ``sold``, ``sold_out`` or ``replay``."""
    return replayed(purchase, found) if status == "replay" else decided(purchase, Outcome(status), int(found))


def decided(
    purchase: Purchase, outcome: Outcome, stock: int | dict[str, int], *, token: Token | Tokens | None = None
) -> Receipt:
    """The receipt for a new decision, by default under the purchase's own token; it is noted on the purchase."""
    order = purchase.order if outcome is Outcome.SOLD else None
    receipt = Receipt(outcome, purchase.guard, order=order, stock=stock, token=token or purchase.token)
    purchase.decided = receipt
    return receipt


def replayed(purchase: Purchase, answer: str) -> Receipt:
    """The receipt for the answer that the idempotency key has already; it is noted on the purchase.

    Raises:
        KeyReused: the answer is for another buyer or item, or for a cart instead of an item alone.
    """
    first = json.loads(answer)
    entry, outcome = first["entry"], Outcome(first["outcome"])
    asked = purchase.buyer, purchase.item, purchase.guard == CART
    if (entry["buyer"], entry["item"], entry["guard"] == CART) != asked:
        raise KeyReused("this Idempotency-Key belongs to another purchase")
    order = entry["order"] if outcome is Outcome.SOLD else None
    receipt = Receipt(outcome, entry["guard"], order=order, stock=first["stock"], token=entry["token"], replayed=True)
    purchase.decided = receipt
    return receipt


def fenced_off(token: Token | None, fence: str) -> FencedOff:
    """The error for a token that is lower than `fence`."""
    return FencedOff(
        f"token {shown(fence_text(token))} is fenced off, {shown(fence)} was here before; "
        "if etcd was wiped, reset the sale"
    )


@contextmanager
def sending() -> Iterator[None]:
    """Around a command that writes: if its answer is lost, it may have been executed or not.

    Raises:
        InDoubt: the answer was lost.
    """
    try:
        yield
    except (NotSent, redis.AuthenticationError, redis.BusyLoadingError):
        raise
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise InDoubt(f"Redis did not say whether the purchase was made ({error})") from error
