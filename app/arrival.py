"""When the request that a thread works on had come; in a rush, that is long before a thread has time for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_arrived: ContextVar[float | None] = ContextVar("arrived", default=None)


def arrived() -> float:
    """When all of it was there, at the latest, in seconds of `time.monotonic`; now, where that is unknown."""
    at = _arrived.get()
    return time.monotonic() if at is None else at


@contextmanager
def arrived_at(moment: float | None) -> Iterator[None]:
    """Work on a request that had come at `moment`, if that is known."""
    token = _arrived.set(moment)
    try:
        yield
    finally:
        _arrived.reset(token)
