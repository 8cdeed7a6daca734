"""One purchase: the request, its critical section with the times, and the receipt."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.contract.keys import DEFAULT_ITEM
from app.contract.orders import Order, encode
from app.contract.outcomes import LossCause, Outcome
from lock.recipes.cohort import CohortToken

Token = int | CohortToken


# Fencing tokens rise from holder to holder, so that Redis can refuse a late holder. A token is the create revision of
# the holder's key in etcd, or the pair (create revision, turn) if a process hands one hold to many turns. Holds of one
# name never share a create revision. In JSON a pair is a list, and compares like a tuple: [7, 2] < [7, 10] < [8, 1].
# A guard whose lock is not etcd's numbers its tokens itself. Its fence says so, and is compared with no token of etcd.


def fence_text(token: Token | None, numbering: str = "") -> str:
    """A token as the text that Redis compares, because Lua's numbers are exact only up to 2^53; empty for `None`.

    A `numbering` other than etcd's stands before it: ``redis-fenced:00000000000000000007``.
    """
    if token is None:
        return ""
    number = f"{token.create_revision:020d}.{token.turn:010d}" if isinstance(token, CohortToken) else f"{token:020d}"
    return f"{numbering}:{number}" if numbering else number


class Held(Protocol):
    """A hold of a lock in etcd: `lock.Hold`, or a turn under one."""

    @property
    def token(self) -> Any: ...

    def ensure(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to a buyer.

    Attributes:
        stock: items left after this purchase; `None` if the stock was not read.
        token: the fencing token under which it was decided; `None` under a guard without one.
        replayed: whether this repeats the first answer to the idempotency key.
        detail: for a refusal, what happened and what to do.
        in_doubt: the write was sent, but its answer was lost; a retry with the same idempotency key tells.
    """

    outcome: Outcome
    guard: str
    order: str | None = None
    stock: int | None = None
    token: Token | None = None
    replayed: bool = False
    detail: str = ""
    in_doubt: bool = False


class PurchaseListener:
    """Called at each point of a purchase's critical section; this base class does nothing.

    Every method runs in the purchase's thread while the lock is held, so all waiters wait for it, too.
    """

    def locked(self, section: Section) -> None:
        """The critical section begins."""

    def read(self, section: Section) -> None:
        """The stock was read (`section.stock`), or the read has decided the purchase."""

    def think(self, section: Section) -> None:
        """The think time begins; it may be zero."""

    def write(self, section: Section) -> None:
        """The write is about to be sent."""

    def left(self, section: Section, error: BaseException | None) -> None:
        """The critical section ends, with `section.receipt` or an error."""


NOBODY = PurchaseListener()


def think_for(seconds: float) -> None:
    """Sleep for the think time. If it is zero, do nothing: `sleep(0)` would yield to another thread."""
    if seconds:
        time.sleep(seconds)


def new_order() -> str:
    """The id of an order: 128 random bits, unique but not secret.

    Python's generator makes them, seeded in each process. The system's generator costs a system call, at which the
    thread yields the interpreter.
    """
    return f"{random.getrandbits(128):032x}"


@dataclass(slots=True)
class Purchase:
    """The request: a buyer's click. Not thread-safe.

    Attributes:
        think_s: think time inside the critical section, in seconds; it widens the race.
        key: the buyer's Idempotency-Key.
        instance: the name of the instance that serves the click.
        order: the id of the order, if the purchase sells.
        listener: called at each point of the critical section.
        began: when a thread began to work on the request, in seconds of `time.monotonic`.
        section: the latest critical section; a guard that retries has several.
        loss: how the lock was lost, if it was.
    """

    buyer: str
    guard: str
    item: str = DEFAULT_ITEM
    think_s: float = 0.0
    key: str | None = None
    instance: str = ""
    order: str = field(default_factory=new_order)
    listener: PurchaseListener = field(default=NOBODY, repr=False)
    began: float = field(default_factory=time.monotonic)
    section: Section | None = None
    loss: LossCause | None = None

    def critical_section(self, hold: Held | None = None, *, token: Token | None = None) -> Section:
        """Begin the critical section; the time before it counts as waiting.

        Use it in a `with` statement that ends before the lock is released, or call `Section.leave`.

        Args:
            hold: the hold of the etcd lock, if there is one; the section takes its token.
            token: the fencing token of any other lock, which the guard numbers itself.
        """
        if hold is None:
            self.section = section = Section(self, None, token, numbering=self.guard)
        else:
            self.section = section = Section(self, hold, hold.token)
        self.listener.locked(section)
        return section

    def entry(self, token: Token | None = None) -> str:
        """The entry of the ledger for this order."""
        at_ms = time.time_ns() // 1_000_000
        return encode(Order(self.order, self.buyer, self.instance, self.guard, token, at_ms, self.item)).decode()


@dataclass(slots=True)
class Section:
    """One critical section of a purchase: its times, the stock that it read, and its decision.

    Attributes:
        hold: the hold of the etcd lock; `None` under a guard without one.
        token: the fencing token of `hold`, or one that the guard gave; `None` under a guard without one.
        numbering: who numbers the tokens: etcd ("") those of its holds, a guard all others, by its name.
        entered, left: seconds of `time.monotonic`; `left` is `None` until the section ends.
        stock: items left when the stock was read; `None` until then.
        read_s, commit_s: duration of read and write, in seconds.
        read_at, commit_at: when read and write were sent, by `app.contract.clock`; `None` if they were not sent.
        receipt: the decision; `None` until then.
    """

    purchase: Purchase
    hold: Held | None = None
    token: Token | None = None
    numbering: str = ""
    entered: float = field(default_factory=time.monotonic)
    left: float | None = None
    stock: int | None = None
    read_s: float = 0.0
    commit_s: float = 0.0
    read_at: int | None = None
    commit_at: int | None = None
    receipt: Receipt | None = None

    def __enter__(self) -> Section:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.left = time.monotonic()
        self.purchase.listener.left(self, error)

    def leave(self, error: BaseException | None = None) -> None:
        """End the section; `error` is the cause, or `None`."""
        self.__exit__(None, error, None)

    def ensure(self) -> None:
        """Raise `lock.LockLost` if this process knows that the lock is lost; asks no server."""
        if self.hold is not None:
            self.hold.ensure()

    def think(self) -> None:
        """The buyer's think time, between the read and the write."""
        self.purchase.listener.think(self)
        if self.purchase.think_s:
            think_for(self.purchase.think_s)
