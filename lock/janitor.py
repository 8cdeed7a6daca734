"""Deletes keys that were, or may have been, written, and that nobody needs any more.

The lease is shared and kept alive, so a key that is forgotten blocks everyone behind it for as long as the session
lives: the key of a wait that was given up while etcd did not answer, of a write whose answer was lost, of a hold that
was dropped without a release.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from lock.client import Client
from lock.clock import now
from lock.errors import EtcdError

logger = logging.getLogger(__name__)

_RETRY_S = 0.5
_DOUBT_S = 300.0  # the longest pause between two looks at a key that may still be written: ten minutes in all


@dataclass
class _Litter:
    key: str
    create_revision: int | None
    first: Callable[[], object] | None
    pause: float = _RETRY_S


class Janitor:
    """Tries again and again until each key is gone, in a thread of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._inbox: queue.SimpleQueue[_Litter | None] = queue.SimpleQueue()  # its put is safe even inside __del__
        self._later: list[tuple[float, int, _Litter]] = []  # a heap by the time of the next try
        self._serial = itertools.count()
        self._thread = threading.Thread(target=self._work, name="lock-janitor", daemon=True)
        self._thread.start()

    def sweep(self, key: str, create_revision: int | None, first: Callable[[], object] | None = None) -> None:
        """Have `key` deleted if it was created at `create_revision`.

        None: a write of it whose answer was lost may be under way, or two, and arrive late: an endpoint that was frozen
        does what it was asked when it thaws. So it is looked for again, after pauses that grow.

        `first` is called before, in the janitor's thread. Takes no lock, so that it can be used in ``__del__``.
        """
        self._inbox.put(_Litter(key, create_revision, first))

    def close(self) -> None:
        """Stop; what is left goes with the lease."""
        self._inbox.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(self._client.timeout)

    def _work(self) -> None:
        while True:
            item = self._next()
            if item is None:
                return
            if item.first is not None:
                item.first()
                item.first = None
            self._delete(item)

    def _next(self) -> _Litter | None:
        """What is due for the longest time, once it is due; None to stop."""
        while True:
            pause = max(self._later[0][0] - now(), 0.0) if self._later else None
            try:
                item = self._inbox.get(timeout=pause)
            except queue.Empty:
                return heapq.heappop(self._later)[2]
            if item is None:
                return None
            self._try_at(now(), item)

    def _delete(self, item: _Litter) -> None:
        try:
            self._client.delete(item.key, item.create_revision)
        except EtcdError as error:
            logger.info("key %s is still to be deleted: %s", item.key, error)
            self._try_at(now() + _RETRY_S, item)
            return
        if item.create_revision is None and item.pause <= _DOUBT_S:
            self._try_at(now() + item.pause, item)
            item.pause *= 2

    def _try_at(self, due: float, item: _Litter) -> None:
        heapq.heappush(self._later, (due, next(self._serial), item))
