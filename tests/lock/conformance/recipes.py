"""The kinds of lock, each used in one way; `test_recipes.py` holds all of them to the same contract.

A new kind is one class here, listed in `RECIPES`. One for asyncio runs its coroutines in a loop of its own thread, and
gives its holds the methods of `Held`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from lock import CohortMutex, Contender, Election, MultiLock, Mutex, ReentrantMutex, Session
from tests.support.lock import WAIT_S

if TYPE_CHECKING:
    from typing_extensions import Self


class Held(Protocol):
    """What every hold can do."""

    @property
    def lost(self) -> threading.Event:
        """Set when it is lost."""

    def remaining(self) -> float:
        """Seconds for which it is surely ours."""

    def ensure(self) -> None:
        """Raise if it is not ours."""

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Have a callback called."""

    def release(self) -> None:
        """Give it back."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: Any) -> None: ...


class Recipe:
    """A lock of one kind, on one name; the base of all of them.

    Attributes:
        lock: the object under test.
        can_try: whether it has `try_acquire`.
        can_cancel: whether it has `cancel`.
    """

    can_try = True
    can_cancel = True

    def __init__(self, session: Session, name: str) -> None:
        self.name = name
        self.session = session
        self.lock: Any = self.make()

    def make(self) -> object:
        """The lock under test."""
        raise NotImplementedError

    def acquire(self, timeout: float | None = WAIT_S) -> Held:
        """Wait for it."""
        held: Held = self.lock.acquire(timeout=timeout)
        return held

    def attempt(self) -> Held | None:
        """Take it if it is free."""
        held: Held | None = self.lock.try_acquire()
        return held

    def token(self, held: Any) -> Any:
        """The fencing token."""
        return held.token

    def contenders(self) -> list[Contender]:
        """Holder and waiters."""
        contenders: list[Contender] = self.lock.contenders()
        return contenders


class OfMutex(Recipe):
    """`Mutex`."""

    def make(self) -> object:
        """See `Recipe`."""
        return Mutex(self.session, self.name)


class OfReentrantMutex(Recipe):
    """`ReentrantMutex`."""

    def make(self) -> object:
        """See `Recipe`."""
        return ReentrantMutex(self.session, self.name)


class OfCohortMutex(Recipe):
    """`CohortMutex`; its tokens are pairs."""

    can_try = False

    def make(self) -> object:
        """See `Recipe`."""
        return CohortMutex(self.session, self.name)


class OfMultiLock(Recipe):
    """`MultiLock` of one name."""

    def make(self) -> object:
        """See `Recipe`."""
        return MultiLock(self.session, [self.name])

    def token(self, held: Any) -> Any:
        """See `Recipe`."""
        return held.tokens[self.name]

    def contenders(self) -> list[Contender]:
        """See `Recipe`."""
        contenders: list[Contender] = self.lock.contenders()[self.name]
        return contenders


class OfElection(Recipe):
    """`Election`: to lead is to hold."""

    can_try = False
    can_cancel = False

    def make(self) -> object:
        """See `Recipe`."""
        return Election(self.session, self.name)

    def acquire(self, timeout: float | None = WAIT_S) -> Held:
        """See `Recipe`."""
        held: Held = self.lock.campaign("value", timeout=timeout)
        return held

    def contenders(self) -> list[Contender]:
        """See `Recipe`."""
        return Mutex(self.session, self.name).contenders()


RECIPES: tuple[type[Recipe], ...] = (OfMutex, OfReentrantMutex, OfCohortMutex, OfMultiLock, OfElection)
EVERY = [recipe.__name__.removeprefix("Of") for recipe in RECIPES]
