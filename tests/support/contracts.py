"""One face for every recipe, for threads and for tasks, so that one suite of tests holds them all to one contract."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from lock import Session
from tests.lock.queue.rules import OneKind
from tests.support.lock import WAIT_S

Make = Callable[[Any, Session, str], Any]


@dataclass(frozen=True)
class Recipe:
    """How to make it from `lock` or `lock.aio`.

    Attributes:
        make: from the module's namespace, a session and a name.
        together: how many of it hold at the same time, 0 for any number.
    """

    name: str
    make: Make
    together: int = 1


RECIPES = [
    Recipe("mutex", lambda kit, session, name: kit.Mutex(session, name)),
    Recipe("writer", lambda kit, session, name: kit.ReadWriteLock(session, name).write),
    Recipe("reader", lambda kit, session, name: kit.ReadWriteLock(session, name).read, 0),
    Recipe("semaphore", lambda kit, session, name: kit.Semaphore(session, name, 2), 2),
    Recipe("kind", lambda kit, session, name: kit.RuleLock(session, name, OneKind(), kind="blue"), 0),
]


class Loop:
    """An event loop in a thread of its own, with asyncio's debug mode."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_debug(True)
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, steps: Coroutine[Any, Any, Any]) -> Any:
        """What these steps return."""
        return asyncio.run_coroutine_threadsafe(steps, self.loop).result(WAIT_S)

    def close(self) -> None:
        """End it; no task may be left."""
        left = self.run(_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_S)
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        assert left == []


class AsyncFace:
    """A recipe of `lock.aio`, with the calls of one of `lock`."""

    def __init__(self, loop: Loop, recipe: Any) -> None:
        self._loop, self._recipe = loop, recipe

    def acquire(self, *, timeout: float | None = None) -> AsyncHoldFace:
        """Acquire in a task."""
        return AsyncHoldFace(self._loop, self._loop.run(_awaited(self._recipe.acquire(timeout=timeout))))

    def try_acquire(self) -> AsyncHoldFace | None:
        """Try in a task."""
        hold = self._loop.run(self._recipe.try_acquire())
        return None if hold is None else AsyncHoldFace(self._loop, hold)

    def contenders(self) -> Any:
        """Who holds and waits."""
        return self._loop.run(self._recipe.contenders())


class AsyncHoldFace:
    """A hold of `lock.aio`, with the calls of one of `lock`."""

    def __init__(self, loop: Loop, hold: Any) -> None:
        self._loop, self.hold = loop, hold
        self.key, self.lost = hold.key, threading.Event()
        hold.on_lost(self.lost.set)

    def ensure(self) -> None:
        """As the hold's own."""
        self.hold.ensure()

    def remaining(self) -> float:
        """As the hold's own."""
        return float(self.hold.remaining())

    def release(self) -> None:
        """Release in a task."""
        self._loop.run(self.hold.release())


async def _awaited(waiting: Any) -> Any:
    return await waiting


async def _others() -> list[str]:
    return [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
