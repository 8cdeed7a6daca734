"""Ends waits from outside, one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class CancelToken:
    """Ends the waits that it was given to, ``acquire(cancel=token)``; holds go on. Thread-safe; use it once.

    Attributes:
        cancelled: whether `cancel` was called: then a wait that it is given to ends at once.
    """

    def __init__(self) -> None:
        self.cancelled = False
        self._waits: set[Callable[[], object]] = set()

    def cancel(self) -> None:
        """Wake each thread that waits with this token with `LockCancelled`."""
        self.cancelled = True
        for end in list(self._waits):
            end()

    @contextlib.contextmanager
    def attached(self, end: Callable[[], object]) -> Iterator[None]:
        """For the recipes: `end` is what ends the wait that goes on inside."""
        self._waits.add(end)
        try:
            if self.cancelled:  # perhaps before it was added
                end()
            yield
        finally:
            self._waits.discard(end)
