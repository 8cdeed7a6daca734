"""Cancels the body of an ``async with`` when its lock is lost, in the way of `asyncio.timeout`."""

import asyncio
import contextlib
from typing import Any

from lock.aio.holds import AsyncHold
from lock.errors import LockLost, NotHeld


class CancelOnLost:
    """Cancels the task that makes it when the hold is lost, until it is released.

    Python 3.10 does not count cancellations: one that comes from elsewhere after the loss is taken for this one there.
    """

    def __init__(self, hold: AsyncHold[Any]) -> None:
        self._hold = hold
        self._loop = asyncio.get_running_loop()
        self._task: Any = asyncio.current_task()
        self._requests = getattr(self._task, "cancelling", int)()  # before this one
        self._error: LockLost | None = None
        if not hold._held._add_listener(self._lose):
            self._lose()

    def end(self, raised: object) -> LockLost | None:
        """Why the lock was lost, if that is what `raised`, the error of the body, stands for."""
        if self._error is None:
            return None
        is_last = getattr(self._task, "uncancel", int)() <= self._requests
        return self._error if is_last and isinstance(raised, asyncio.CancelledError) else None

    def _lose(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        try:
            self._hold.ensure()
        except NotHeld:  # the body has released it, or has ended
            return
        except LockLost as error:
            self._error = error
            self._task.cancel()
