"""The errors that refuse a purchase, including those of `lock` and Redis, and the outcome of each.

Every other error is a defect and is not caught.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import redis
from redis.exceptions import NoPermissionError

from app.contract.outcomes import LossCause, Outcome
from app.sales.advice import ETCD_USER, REDIS_USER
from app.sales.purchase import Purchase, Receipt
from app.sales.redis_client import Refused
from lock import EtcdDenied, EtcdError, EtcdUnavailable, LockCancelled, LockLost, LockTimeout, SessionLost


class PurchaseError(Exception):
    """Base of the errors of this module."""


class FencedOff(PurchaseError):
    """Redis has already seen a higher token; nothing was written."""


class SaleReset(PurchaseError):
    """The sale was reset since the click, or between the read and the write; nothing was written."""


class SaleLost(PurchaseError):
    """Redis has lost its data, or has an old copy: nothing is sold before a reset."""

    def __str__(self) -> str:
        return "Redis has lost this sale: reset it"


class EtcdLost(PurchaseError):
    """etcd has lost its data: Redis has seen a higher token than etcd can give."""

    def __str__(self) -> str:
        return "etcd has lost this sale: reset it"


class SaleDamaged(PurchaseError):
    """The value of a key of the sale was changed by hand; nothing was written."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self._key = key

    def __str__(self) -> str:
        return f"The value of {self._key} in Redis is not a number: reset the sale"


class InDoubt(PurchaseError):
    """The write was sent, but its answer was lost; a retry with the same idempotency key tells."""


class ShuttingDown(PurchaseError):
    """This instance takes no more purchases; nothing was written."""


class KeyReused(PurchaseError):
    """The idempotency key belongs to another purchase."""


class Refusal(NamedTuple):
    """The meaning of an error for the buyer."""

    outcome: Outcome
    advice: str
    loss: LossCause | None = None


RETRY = "Nothing was written; try again."
OPEN_ANEW = "Nothing was written; POST /stock/reset opens the sale anew."
ELSEWHERE = "Nothing was written; try another instance."
REDIS_BACK = "Nothing was written; try again when Redis is back."
ASK_AGAIN = "The purchase may have been made: ask again with the same Idempotency-Key, which never buys twice."
REFUSALS: dict[type[Exception], Refusal] = {
    # The first match counts, so a subclass stands before its base.
    LockTimeout: Refusal(Outcome.LOCK_TIMEOUT, RETRY),
    SessionLost: Refusal(Outcome.LOCK_LOST, RETRY, LossCause.SESSION_LOST),
    LockLost: Refusal(Outcome.LOCK_LOST, RETRY, LossCause.HOLD_LOST),
    FencedOff: Refusal(Outcome.LOCK_LOST, RETRY, LossCause.FENCED_OFF),
    SaleReset: Refusal(Outcome.LOCK_LOST, RETRY, LossCause.SALE_RESET),
    SaleLost: Refusal(Outcome.UNAVAILABLE, OPEN_ANEW),
    SaleDamaged: Refusal(Outcome.UNAVAILABLE, OPEN_ANEW),
    LockCancelled: Refusal(Outcome.UNAVAILABLE, ELSEWHERE),
    ShuttingDown: Refusal(Outcome.UNAVAILABLE, ELSEWHERE),
    EtcdUnavailable: Refusal(Outcome.UNAVAILABLE, "Nothing was written; try again when etcd is back."),
    EtcdDenied: Refusal(Outcome.UNAVAILABLE, ETCD_USER),
    EtcdError: Refusal(Outcome.UNAVAILABLE, "Nothing was written; try again when etcd takes writes."),
    InDoubt: Refusal(Outcome.UNAVAILABLE, ASK_AGAIN),
    Refused: Refusal(Outcome.UNAVAILABLE, "Nothing was written; try again when Redis takes writes."),
    redis.AuthenticationError: Refusal(Outcome.UNAVAILABLE, REDIS_USER),
    NoPermissionError: Refusal(Outcome.UNAVAILABLE, REDIS_USER),
    redis.ConnectionError: Refusal(Outcome.UNAVAILABLE, REDIS_BACK),
    redis.TimeoutError: Refusal(Outcome.UNAVAILABLE, REDIS_BACK),
}
EXPECTED = tuple(REFUSALS)
REDIS_ERRORS = (Refused, NoPermissionError, redis.ConnectionError, redis.TimeoutError)
TEMPORARY = (EtcdError, LockLost, SaleLost, SaleDamaged, ShuttingDown, *REDIS_ERRORS)


def refusal_of(error: BaseException) -> Refusal | None:
    """The refusal for `error`; `None` for a defect."""
    return next((refusal for kind, refusal in REFUSALS.items() if isinstance(error, kind)), None)


def again(error: Exception) -> Exception:
    """A copy of `error` to raise in another thread: two threads must not share one traceback."""
    fresh = copy.copy(error)
    fresh.__cause__ = error
    return fresh


def sentence(error: Exception) -> str:
    """The message of the error with a full stop."""
    text = str(error)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def refuse(purchase: Purchase, error: Exception) -> Receipt:
    """The receipt for a purchase that failed with one of `EXPECTED`; notes on it how its lock was lost, if it was."""
    refusal = refusal_of(error)
    if refusal is None:
        raise error
    purchase.loss = refusal.loss
    return Receipt(
        refusal.outcome,
        purchase.guard,
        token=purchase.section.token if purchase.section else None,
        detail=f"{sentence(error)} {refusal.advice}",
        in_doubt=isinstance(error, InDoubt),
    )
