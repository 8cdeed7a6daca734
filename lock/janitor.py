"""Deletes keys that were, or may have been, written, and that nobody needs any more.

The lease is shared and kept alive, so a key that is forgotten blocks everyone behind it for as long as the session
lives: the key of a wait that was given up while etcd did not answer, of a write whose answer was lost, of a hold that
was dropped without a release.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from lock.client import Client
from lock.clock import now
from lock.errors import EtcdError

logger = logging.getLogger(__name__)

_RETRY_S = 0.5


class _Litter(NamedTuple):
    key: str
    create_revision: int | None
    in_doubt_until: float  # a write whose answer was lost may still arrive until then
    first: Callable[[], object] | None


class Janitor:
    """Tries again and again until each key is gone, in a thread of its own.

    Args:
        doubt_s: seconds for which a write whose answer was lost may still arrive: the TTL, after which its lease is
        gone.
    """

    def __init__(self, client: Client, *, doubt_s: float) -> None:
        self._client = client
        self._doubt_s = doubt_s
        self._inbox: queue.SimpleQueue[_Litter | None] = queue.SimpleQueue()  # its put is safe even inside __del__
        self._thread = threading.Thread(target=self._work, name="lock-janitor", daemon=True)
        self._thread.start()

    def sweep(self, key: str, create_revision: int | None, first: Callable[[], object] | None = None) -> None:
        """Have `key` deleted if it was created at `create_revision`; None where it is not known whether it exists.

        `first` is called before, in the janitor's thread. Takes no lock, so that it can be used in ``__del__``.
        """
        in_doubt_until = now() + (self._doubt_s if create_revision is None else 0.0)
        self._inbox.put(_Litter(key, create_revision, in_doubt_until, first))

    def close(self) -> None:
        """Stop; what is left goes with the lease."""
        self._inbox.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(self._client.timeout)

    def _work(self) -> None:
        litter: list[_Litter] = []
        while True:
            try:
                item = self._inbox.get(timeout=_RETRY_S if litter else None)
            except queue.Empty:
                litter = [item for item in litter if not self._delete(item)]
                continue
            if item is None:
                return
            if item.first is not None:
                item.first()
            if not self._delete(item):
                litter.append(item)

    def _delete(self, item: _Litter) -> bool:
        """Whether nothing is left to do for this key."""
        try:
            deleted = self._client.delete(item.key, item.create_revision)
        except EtcdError as error:
            logger.info("key %s is still to be deleted: %s", item.key, error)
            return False
        return deleted or now() >= item.in_doubt_until
