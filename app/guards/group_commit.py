"""The commit queue: purchases of one process that are committed together.

The first entry leads: its thread gets the lock for all, takes a group out of the queue, and commits it. Then the next
entry leads, and waits for the lock while the group before is being committed. A leader that times out passes the lead
on; one that cannot reach etcd fails all entries.
"""

from __future__ import annotations

import threading
from collections import deque

from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import again


class Entry:
    """A purchase in the queue, and the thread that waits for its result; if it `leads`, it has to get the lock."""

    def __init__(self, purchase: Purchase) -> None:
        self.purchase = purchase
        self.leads = False
        self._result: Receipt | Exception | None = None
        self._called = threading.Event()

    def wait(self, timeout: float) -> bool:
        """Wait until it leads or is settled; False if that takes more than `timeout` seconds."""
        return self._called.wait(timeout)

    def result(self) -> Receipt:
        """The result of an entry that has left the queue; raises a copy of its error, which others may share."""
        self._called.wait()
        if isinstance(self._result, Exception):
            raise again(self._result)
        assert self._result is not None
        return self._result

    def appoint(self) -> None:
        self.leads = True
        self._called.set()

    def settle(self, result: Receipt | Exception) -> None:
        self._result = result
        self._called.set()


class CommitQueue:
    """First come, first served. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[Entry] = deque()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, entry: Entry) -> None:
        with self._lock:
            self._waiting.append(entry)
            self._appoint_first()

    def take(self, most: int) -> list[Entry]:
        """Take the first `most` out, the leader included; the caller settles them."""
        with self._lock:
            group = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self._appoint_first()
        return group

    def remove(self, entry: Entry) -> bool:
        """Take out an entry that gives up; False if it was taken before."""
        with self._lock:
            if entry not in self._waiting:
                return False
            self._waiting.remove(entry)
            self._appoint_first()
        return True

    def fail_all(self, error: Exception) -> None:
        """Settle all entries with the same error."""
        for entry in self.take(len(self._waiting)):
            entry.settle(error)

    def _appoint_first(self) -> None:
        """The first entry leads; with the lock held."""
        if self._waiting:
            self._waiting[0].appoint()
