"""How the steps of a recipe wait: by blocking their thread, or by suspending their task.

The steps are coroutines, written once (`acquiring` are those of `acquire`, and so on). A thread runs them with
`run_blocking`: each step blocks, so nothing is ever suspended, and an interrupt goes through their frames as through
any others. `lock.aio` awaits them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec, TypeVar

from lock.runtime.interrupts import InterruptSafeEvent, run_uninterrupted

P = ParamSpec("P")
T = TypeVar("T")


class Execution:
    """What takes time; here it blocks the thread. `lock.aio.execution` suspends the task instead."""

    @property
    def owner(self) -> object:
        """The thread or task that the steps are done for."""
        return threading.current_thread()

    async def wait(self, event: InterruptSafeEvent, timeout: float) -> bool:
        """Until the event is set, for `timeout` seconds at most; whether it is."""
        return event.wait(timeout)

    async def call(self, blocking: Callable[[], T]) -> T:
        """What a call returns that blocks for a while."""
        return blocking()

    async def send(self, method: Callable[..., Any], request: Any, **options: Any) -> Any:
        """The response to a gRPC request with one response."""
        return method(request, **options)

    def slot(self, timeout: float) -> AbstractAsyncContextManager[object]:
        """In it a write may be sent; where there are very many, wait for it; EtcdUnavailable after `timeout` s."""
        return contextlib.nullcontext()  # there are no more writes than threads

    async def run(self, steps: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What these steps return; no KeyboardInterrupt stops them halfway."""
        return run_uninterrupted(lambda: run_blocking(steps))


BLOCKING = Execution()


def run_blocking(steps: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **options: P.kwargs) -> T:
    """What these steps return, with `BLOCKING` for their execution."""
    try:
        steps(*args, **options).send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a step that blocks was suspended")
