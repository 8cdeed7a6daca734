"""One purchase: its parameters, its times and its outcome."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from app.clock import now_ns
from app.sales.opening import Opened
from app.sales.tokens import Token, Tokens

DEFAULT_ITEM = "1"
CART = "cart"  # the guard of a cart, as metrics and ledger know it
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Outcome(str, Enum):
    """How a purchase ended. They are never conflated: only `SOLD` took an item; `UNAVAILABLE` may be in doubt."""

    SOLD = "sold"
    SOLD_OUT = "sold_out"
    NOT_OPEN = "not_open"
    BUSY = "busy"  # given by `app.web.busy`
    LOCK_TIMEOUT = "lock_timeout"
    LOCK_LOST = "lock_lost"
    UNAVAILABLE = "unavailable"


class LossCause(str, Enum):
    """How a lock was found to be lost, before or after the write."""

    SESSION_LOST = "session_lost"
    HOLD_LOST = "hold_lost"
    FENCED_OFF = "fenced_off"
    SALE_RESET = "sale_reset"
    RELEASED_LATE = "released_late"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to a buyer.

    Attributes:
        stock: what was left as this purchase saw it, of a cart for each item; None if it did not see it.
        token: the fencing token under which it was decided, of a cart for each item; None under a guard without one.
        replayed: it is the first answer to this idempotency key, given again.
        detail: for a refusal, what happened and what to do.
        in_doubt: the write was sent and its answer lost; a retry with the same idempotency key finds out.
        opened: the planned opening of a sale that is not open.
    """

    outcome: Outcome
    guard: str
    order: str | None = None
    stock: int | dict[str, int] | None = None
    token: Token | Tokens | None = None
    replayed: bool = False
    detail: str = ""
    in_doubt: bool = False
    opened: Opened | None = None


class SectionListener:
    """Hears when a critical section has begun, and has ended while its lock is still held; here it does nothing."""

    def entered(self, purchase: Purchase) -> None: ...

    def left(self, purchase: Purchase, error: BaseException | None) -> None: ...


@dataclass(slots=True)
class Purchase:
    """A buyer's click and its times. Not thread-safe.

    Attributes:
        item: the item; of a cart, all items, separated by commas.
        hold_s: think time inside the critical section, in seconds; it widens the race.
        key: the buyer's Idempotency-Key.
        instance: which one serves the click.
        order: the id that the order will have if there is one.
        token: the fencing token, once a lock that has one is held.
        loss: how the lock was lost, if it was.
        read_s, commit_s: duration of the critical section's read and write, in seconds.
        read_at, commit_at: when they were sent, by `app.clock`; None if they were not.
        decided: the decision of the critical section, if there is one.
        began: when a thread began to work on the request, in seconds of `time.monotonic`.
        listener: hears of the critical section.
    """

    buyer: str
    guard: str
    item: str = DEFAULT_ITEM
    hold_s: float = 0.0
    key: str | None = None
    instance: str = ""
    order: str = field(default_factory=lambda: uuid.uuid4().hex)
    token: Token | None = None
    loss: LossCause | None = None
    read_s: float = 0.0
    commit_s: float = 0.0
    read_at: int | None = None
    commit_at: int | None = None
    decided: Receipt | None = None
    listener: SectionListener = field(default_factory=SectionListener, repr=False)
    began: float = field(default_factory=time.monotonic)
    entered: float | None = None
    left: float | None = None

    @contextmanager
    def critical_section(self, *, token: Token | None = None) -> Iterator[None]:
        """The critical section; all the time before it was waiting. Leave it before the lock is released."""
        self.enter(token)
        error = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.leave(error)

    def enter(self, token: Token | None) -> None:
        self.entered, self.token = time.monotonic(), token
        self.read_at = self.commit_at = self.decided = None
        self.listener.entered(self)

    def leave(self, error: BaseException | None) -> None:
        self.left = time.monotonic()
        self.listener.left(self, error)

    @property
    def waited_s(self) -> float:
        """Seconds until the critical section began, or until now."""
        return (self.entered or time.monotonic()) - self.began

    @property
    def held_s(self) -> float:
        """Seconds inside the critical section."""
        return (self.left or time.monotonic()) - self.entered if self.entered else 0.0

    @contextmanager
    def timing(self, part: Literal["read", "commit"]) -> Iterator[None]:
        """Time the critical section's read, or its write."""
        began = time.monotonic()
        setattr(self, f"{part}_at", now_ns())
        try:
            yield
        finally:
            setattr(self, f"{part}_s", time.monotonic() - began)

    def think(self) -> None:
        """The buyer's think time, between the read and the write."""
        if self.hold_s:
            time.sleep(self.hold_s)

    def entry(self, *, item: str | None = None, token: Token | Tokens | None = None) -> str:
        """The entry of the ledger for this order; of a cart, for one of its items."""
        bought = {"order": self.order, "item": item or self.item, "buyer": self.buyer, "instance": self.instance}
        at_ms = time.time_ns() // 1_000_000
        return _encode({**bought, "guard": self.guard, "token": token or self.token, "at_ms": at_ms})
