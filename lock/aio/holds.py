"""Holds for tasks: those of `lock`, with a release that is awaited."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

import lock as sync
from lock.aio import driver
from lock.recipes.cohort import CohortToken

HeldT = TypeVar("HeldT", bound="sync.Hold | sync.Permit | sync.Turn | sync.MultiHold")
KeyT = TypeVar("KeyT", bound="sync.Hold | sync.Permit | sync.Turn")
HoldT = TypeVar("HoldT", bound=sync.Hold)
AsyncHoldT = TypeVar("AsyncHoldT", bound="AsyncHold[Any]")


class Lost:
    """Tells that a hold is lost: ``await hold.lost`` or ``await hold.lost.wait()``, and ``hold.lost.is_set()``."""

    def __init__(
        self, held: sync.Hold | sync.Permit | sync.Turn | sync.MultiHold, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._event = asyncio.Event()
        self._lost = held.lost
        held._on_loss(partial(driver.call_in, loop, self._event.set))

    def is_set(self) -> bool:
        return self._lost.is_set()

    async def wait(self) -> None:
        await self._event.wait()

    def __await__(self) -> Generator[object, None, None]:
        return self.wait().__await__()


class AsyncHold(driver.Leaving, Generic[HeldT]):
    """What is held, by a task. Leaving ``async with`` releases it; `released` says whether it was."""

    def __init__(self, held: HeldT) -> None:
        self._sync = self._held = held
        self._loop = asyncio.get_running_loop()
        self._lost: Lost | None = None
        self._is_left = False  # by a release that has begun

    @property
    def lost(self) -> Lost:
        """Set as soon as it is known that the lock is not ours any more; can be awaited."""
        if self._lost is None:
            self._lost = Lost(self._held, self._loop)  # also if another thread asks first
        return self._lost

    @property
    def released(self) -> bool:
        return self._held.released

    def remaining(self) -> float:
        """See `lock.Hold.remaining`; asks no server."""
        return self._held.remaining()

    def ensure(self) -> None:
        """See `lock.Hold.ensure`; asks no server."""
        self._held.ensure()

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, from another thread, when the lock is lost; at once if it is already."""
        self._held.on_lost(callback)

    def release(self, *, wait: bool = True) -> Coroutine[Any, Any, None]:
        """Free the lock; to be awaited. As `lock.Hold.release`. A task cancelled here has released it."""
        self._is_left = True
        return driver.release(self._held, driver.calling_task(), wait=wait)

    def __repr__(self) -> str:
        return repr(self._held)

    async def __aenter__(self: AsyncHoldT) -> AsyncHoldT:
        try:
            self.ensure()
            return self
        except BaseException:  # an interrupt, too: neither the body nor `__aexit__` will run
            self._held._give_up()
            raise


class HeldKey(AsyncHold[KeyT]):
    """A key that holds, for a task; `name` is the lock's, `key` the key in etcd that holds."""

    def __init__(self, held: KeyT) -> None:
        super().__init__(held)
        self.name, self.key = held.name, held.key

    def is_owner(self) -> sync.Created:
        """See `lock.Hold.is_owner`."""
        return self._held.is_owner()

    def on_contended(self, callback: Callable[[], object]) -> None:
        """Call `callback` once, from another thread, when there is a waiter; see `lock.Hold.on_contended`."""
        self._held.on_contended(callback)


class Permit(HeldKey[sync.Permit]):
    """One of a semaphore's permits, held. It has no token."""


class Hold(HeldKey[HoldT]):
    """A lock, held by a task; `token` is the fencing token, as that of `lock.Hold`."""

    @property
    def token(self) -> int:
        return self._held.token


class Turn(HeldKey[sync.Turn]):
    """A turn of a hold of the process, for a task; `token` is the fencing token, as that of `lock.Turn`."""

    @property
    def token(self) -> CohortToken:
        return self._held.token


class ReadHold(Hold[sync.ReadHold]):
    """A lock held for reading, together with other readers."""


class WriteHold(Hold[sync.WriteHold]):
    """A lock held for writing, alone."""

    async def downgrade(self) -> ReadHold:
        """Go on as a reader in the same place: see `lock.WriteHold.downgrade`."""
        return ReadHold(await driver.call(self._held.downgrade))


class Leadership(Hold[sync.Leadership]):
    """An election won. Leaving ``async with`` resigns."""

    async def proclaim(self, value: str) -> None:
        """Let all observers see another value: see `lock.Leadership.proclaim`."""
        await driver.call(partial(self._held.proclaim, value))


class MultiHold(AsyncHold[sync.MultiHold]):
    """Several locks, held by a task; `tokens` has the fencing token of each name, `lost` is set when one is lost."""

    @property
    def tokens(self) -> dict[str, int]:
        return self._held.tokens

    def is_owner(self) -> list[sync.Created]:
        """See `lock.MultiHold.is_owner`."""
        return self._held.is_owner()
