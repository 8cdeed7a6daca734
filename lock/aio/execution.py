"""Suspends the task where a thread would block: see `lock.runtime.execution`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from lock import EtcdUnavailable
from lock.runtime.execution import Execution
from lock.runtime.interrupts import InterruptSafeEvent

T = TypeVar("T")

_WRITES = 64  # at once, of all tasks of a loop
_THREADS = 16  # likewise
_FOREVER_S = 1e9
_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class Suspending(Execution):
    """Suspends the task that makes it. No thread waits for what it waits for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

    @property
    def owner(self) -> object:
        return self._task

    async def wait(self, event: InterruptSafeEvent, timeout: float) -> bool:
        if event.is_set() or timeout <= 0:
            return event.is_set()
        woken: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_later(timeout, _wake, woken)
        event.listen(lambda: self._call_soon(_wake, woken))
        try:
            await woken
        finally:
            event.listen(None)
            timer.cancel()
        return event.is_set()

    async def call(self, blocking: Callable[[], T]) -> T:
        """In a thread for this call alone: those of the loop may all be waiting for this very lock."""
        async with _threads.setdefault(self._loop, asyncio.Semaphore(_THREADS)):
            thread = ThreadPoolExecutor(1, "lock-call")
            try:
                return await self._loop.run_in_executor(thread, blocking)
            finally:
                thread.shutdown(wait=False)

    async def send(self, method: Callable[..., Any], request: Any, **options: Any) -> Any:
        call = method.future(request, **options)  # type: ignore[attr-defined]
        answered: asyncio.Future[None] = self._loop.create_future()
        call.add_done_callback(lambda _: self._call_soon(_wake, answered))
        await answered
        return call.result()

    @contextlib.asynccontextmanager
    async def slot(self, timeout: float) -> AsyncIterator[None]:
        """As many at once as etcd has use for, because each takes memory and time of the loop."""
        slots = _slots.setdefault(self._loop, asyncio.Semaphore(_WRITES))
        try:
            if slots.locked():
                await asyncio.wait_for(slots.acquire(), min(timeout, _FOREVER_S))
            else:
                await slots.acquire()
        except asyncio.TimeoutError:
            raise EtcdUnavailable(f"{_WRITES} writes to etcd were under way for {timeout:.1f} s") from None
        try:
            yield
        finally:
            slots.release()

    async def run(self, steps: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await steps()  # a task is interrupted by its cancellation alone

    def _call_soon(self, callback: Callable[..., object], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(callback, *args)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
