"""The commit queue: purchases of one process that are to be committed together.

The first entry leads: its thread gets the lock for all, takes a group out of the queue, and commits it. From then on
the next entry leads, so the lock is waited for while the group before is being committed. A leader that gives up passes
the lead on; one that finds the lock out of reach fails all entries.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import again


class Entry:
    """A purchase in the queue, and the thread that waits for its result.

    Args:
        timeout: seconds it has to be taken into a group.

    Attributes:
        leads: whether its thread has to get the lock.
    """

    def __init__(self, purchase: Purchase, *, timeout: float) -> None:
        self.purchase = purchase
        self.leads = False
        self._until = time.monotonic() + timeout
        self._result: Receipt | Exception | None = None
        self._called = threading.Event()

    def remaining(self) -> float:
        """Seconds left of its time."""
        return max(self._until - time.monotonic(), 0.0)

    def wait(self, longer: float) -> bool:
        """Wait until it leads or is settled; False if that takes `longer` seconds more than its time."""
        return self._called.wait(self.remaining() + longer)

    def result(self) -> Receipt:
        """The result of an entry that is not in the queue any more; raises its error, which others may share."""
        self._called.wait()
        if isinstance(self._result, Exception):
            raise again(self._result)
        assert self._result is not None
        return self._result

    def appoint(self) -> None:
        """It leads from now on."""
        self.leads = True
        self._called.set()

    def settle(self, result: Receipt | Exception) -> None:
        """Set its result."""
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
        """Put it at the end."""
        with self._lock:
            self._waiting.append(entry)
            self._appoint_first()

    def take(self, most: int) -> list[Entry]:
        """Take the first `most` out, the leader among them; they have to be settled."""
        with self._lock:
            group = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self._appoint_first()
        return group

    def remove(self, entry: Entry) -> bool:
        """Take one out that gives up; False if it was taken out before."""
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
