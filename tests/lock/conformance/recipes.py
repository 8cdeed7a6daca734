"""Every recipe behind one face, for threads and for tasks: the tests of recipes hold all of them to one contract.

A new recipe is one line of `RECIPES`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lock
from lock import Contender, LockCancelled, Mutex, Session, aio
from tests.support.lock import WAIT_S
from tests.support.waiting import in_thread, wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

ANY = 99


@dataclass(frozen=True)
class Recipe:
    """How to make it from the namespace of `lock` or `lock.aio`, and how many of it hold at the same time."""

    name: str
    make: Callable[[Any, Session, str], Any]
    together: int = 1


RECIPES = [
    Recipe("mutex", lambda kit, session, name: kit.Mutex(session, name)),
    Recipe("reentrant", lambda kit, session, name: kit.ReentrantMutex(session, name)),
    Recipe("cohort", lambda kit, session, name: kit.CohortMutex(session, name)),
    Recipe("multi", lambda kit, session, name: kit.MultiLock(session, [name])),
    Recipe("election", lambda kit, session, name: kit.Election(session, name)),
    Recipe("writer", lambda kit, session, name: kit.ReadWriteLock(session, name).write),
    Recipe("reader", lambda kit, session, name: kit.ReadWriteLock(session, name).read, ANY),
    Recipe("semaphore", lambda kit, session, name: kit.Semaphore(session, name, 2), 2),
]
MUTEX, REENTRANT, COHORT, MULTI = RECIPES[:4]
USES = [(recipe, tasks) for tasks in (False, True) for recipe in RECIPES]
IDS = [f"{recipe.name}-{'tasks' if tasks else 'threads'}" for recipe, tasks in USES]


class Loop:
    """An event loop in asyncio's debug mode, in its own thread. Each thread that uses it has a task there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_debug(True)
        self._orders: dict[threading.Thread, asyncio.Queue[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, steps: Coroutine[Any, Any, Any]) -> Any:
        """What these steps return, done by the task of the calling thread."""
        outcome: Future[Any] = Future()
        self._loop.call_soon_threadsafe(self._order, threading.current_thread(), steps, outcome)
        return outcome.result(3 * WAIT_S)

    def start(self, steps: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Have these steps done by their own task, which ends when the future is cancelled."""
        return asyncio.run_coroutine_threadsafe(steps, self._loop)

    def close(self) -> None:
        """End it; no task of a lock may be left."""
        for orders in self._orders.values():
            self._loop.call_soon_threadsafe(orders.put_nowait, None)
        wait_until(lambda: not asyncio.all_tasks(self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _order(self, thread: threading.Thread, steps: Coroutine[Any, Any, Any], outcome: Future[Any]) -> None:
        if thread not in self._orders:
            self._orders[thread] = asyncio.Queue()
            self._tasks.add(self._loop.create_task(self._serve(self._orders[thread])))
        self._orders[thread].put_nowait((steps, outcome))

    async def _serve(self, orders: asyncio.Queue[Any]) -> None:
        while (order := await orders.get()) is not None:
            await _do(*order)
            del order  # or a hold that was dropped would live on in it


async def _do(steps: Coroutine[Any, Any, Any], outcome: Future[Any]) -> None:
    try:
        outcome.set_result(await steps)
    except BaseException as error:
        outcome.set_exception(error)


class TaskHold:
    """A hold of `lock.aio` with the calls of one of `lock`; what blocks is done by the task of the thread."""

    def __init__(self, loop: Loop, hold: Any) -> None:
        self._loop, self._hold, self.lost = loop, hold, threading.Event()
        hold.on_lost(self.lost.set)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hold, name)

    def __repr__(self) -> str:
        return repr(self._hold)

    def release(self) -> None:
        self._loop.run(self._hold.release())

    def __enter__(self) -> Self:
        self._loop.run(self._hold.__aenter__())
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self._loop.run(self._hold.__aexit__(*exc_info))


class Face:
    """One recipe on one name, with the same calls for threads and for tasks, which need a loop.

    Attributes:
        lock: the object under test.
        cancelled: the error of a wait that was cancelled.
    """

    def __init__(self, recipe: Recipe, tasks: bool, session: Session, name: str, loop: Loop | None = None) -> None:
        self.recipe, self.session, self.name, self._loop = recipe, session, name, loop if tasks else None
        self.lock = recipe.make(aio if tasks else lock, session, name)
        self.cancelled: type[BaseException] = CancelledError if tasks else LockCancelled

    def rival(self, session: Session) -> Face:
        """What excludes it, in another session: the same recipe, or a mutex where several hold together."""
        alone = self.recipe.together == 1
        return Face(self.recipe if alone else MUTEX, alone and self._loop is not None, session, self.name, self._loop)

    def _acquiring(self, timeout: float | None) -> Any:
        if self.recipe.name == "election":
            return self.lock.campaign("value", timeout=timeout)
        return self.lock.acquire(timeout=timeout)

    def _do(self, outcome: Any) -> Any:
        """What was called; for tasks it is awaited by that of this thread."""
        return outcome if self._loop is None else self._loop.run(outcome)

    def _held(self, outcome: Any) -> Any:
        held = self._do(outcome)
        return held if self._loop is None or held is None else TaskHold(self._loop, held)

    def acquire(self, timeout: float | None = WAIT_S) -> Any:
        return self._held(self._acquiring(timeout))

    def turn(self, note: Callable[[Any], object] = lambda held: None) -> Any:
        """Wait for it, say so, and give it back; its token."""
        with self.acquire(3 * WAIT_S) as held:
            note(held)
            return self.token(held)

    def enter(self, *, together: bool) -> tuple[Any, Any]:
        """Enter and leave the lock itself; its hold, and another one that its body has acquired beside it."""
        if self._loop is not None:
            return self._loop.run(self._enter(together))  # type: ignore[no-any-return]
        with self.lock as mine:
            mine.ensure()
            return mine, self.lock.acquire(timeout=WAIT_S) if together else None

    async def _enter(self, together: bool) -> tuple[Any, Any]:
        async with self.lock as mine:
            mine.ensure()
            return mine, await self.lock.acquire(timeout=WAIT_S) if together else None

    def cancellable(self) -> tuple[Future[Any], Callable[[], object]]:
        """A wait, and what cancels this one."""
        if self._loop is None:
            mine = Face(self.recipe, False, self.session, self.name)
            return in_thread(mine.acquire), mine.lock.cancel
        waiting = self._loop.start(self._acquiring(WAIT_S))
        return waiting, waiting.cancel

    def can_try(self) -> bool:
        return hasattr(self.lock, "try_acquire")

    def attempt(self) -> Any:
        """Take it if it is free, else None."""
        return self._held(self.lock.try_acquire())

    def release_last(self) -> None:
        """Release what this thread, or its task, has acquired last."""
        self._do(self.lock.release())

    def contenders(self) -> list[Contender]:
        if not hasattr(self.lock, "contenders"):
            return Mutex(self.session, self.name).contenders()
        told = self._do(self.lock.contenders())
        found: list[Contender] = told[self.name] if isinstance(told, dict) else told
        return found

    def token(self, held: Any) -> Any:
        """The fencing token; None of a permit."""
        return held.tokens[self.name] if hasattr(held, "tokens") else getattr(held, "token", None)


Make = Callable[..., Face]


def every(session: Session, name: str, loop: Loop) -> list[Face]:
    """Each recipe, for threads and for tasks, each on its own name below this one."""
    return [Face(*use, session, f"{name}/{of}", loop) for use, of in zip(USES, IDS, strict=True)]
