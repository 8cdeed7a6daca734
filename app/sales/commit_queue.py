"""A queue of purchases that are decided together: the thread of its first entry decides for the others, too.

The first entry leads until it resigns; then the next one leads. A leader that fails or times out leaves the queue, and
the next one leads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from app.sales.purchase import Held, Purchase, Receipt, Section
from app.sales.refusals import InDoubt, again
from lock import LockTimeout

MOST_AT_ONCE = 128
_RESULT_S = 3.0  # a purchase waits so much longer than its own time for its leader, which may have to ask etcd again

Result = Receipt | Exception
Sell = Callable[[Sequence[Section]], Sequence[Result]]


@dataclass(eq=False)
class QueuedPurchase:
    """A purchase in the queue. Its thread wakes up when the entry becomes the leader, or has a result."""

    purchase: Purchase
    result: Result | None = None
    calls: SimpleQueue[None] = field(default_factory=SimpleQueue)  # much faster than an Event

    def wait(self, timeout: float) -> bool:
        """Wait for a wake-up; False if none comes within `timeout` seconds."""
        with suppress(Empty):
            self.calls.get(timeout=timeout)
            return True
        return False

    def settle(self, result: Result) -> None:
        self.result = result
        self.calls.put(None)

    def receipt(self) -> Receipt:
        """The receipt. If the result is an error, raises a copy of it, because entries share errors."""
        if isinstance(self.result, Exception):
            raise again(self.result)
        assert self.result is not None
        return self.result


class CommitQueue:
    """First come, first served. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[QueuedPurchase] = deque()
        self._leader: QueuedPurchase | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def buy(
        self, purchase: Purchase, time_left: Callable[[Purchase], float], lead: Callable[[QueuedPurchase], None]
    ) -> Receipt:
        """Queue, and return the receipt. A leader calls `lead`, which returns once the purchase is settled.

        Raises:
            LockTimeout: the purchase neither became the leader nor got a result in its time, plus a moment.
            Exception: the error of `lead`, or the error that is the purchase's result.
        """
        entry = QueuedPurchase(purchase)
        with self._lock:
            self._waiting.append(entry)
            self._appoint_first()
        try:
            while not entry.wait(time_left(purchase) + _RESULT_S):
                if self._remove(entry):  # otherwise a leader is deciding it
                    raise LockTimeout("others of this instance waited for the lock, but not in time")
            if entry.result is None:
                lead(entry)
        finally:
            if entry.result is None:
                self._remove(entry)
            self.resign(entry)
        return entry.receipt()

    def resign(self, entry: QueuedPurchase) -> None:
        """If this entry leads, let the next one lead."""
        if self._leader is entry:
            with self._lock:
                self._leader = None
                self._appoint_first()

    def serve(self, sell: Sell, hold: Held | None = None) -> None:
        """Take the first `MOST_AT_ONCE` entries, the leader included, and settle each in its own critical section.

        If `sell` is interrupted, all are in doubt. `hold` is the hold of the etcd lock, if there is one.
        """
        with self._lock:
            group = [self._waiting.popleft() for _ in range(min(MOST_AT_ONCE, len(self._waiting)))]
        sections = [entry.purchase.critical_section(hold) for entry in group]
        interrupted = InDoubt("the thread that committed this purchase was interrupted")
        results: Sequence[Result] = [interrupted] * len(group)
        try:
            results = sell(sections)
        except Exception as error:
            results = [error] * len(group)
        finally:
            for entry, section, result in zip(group, sections, results, strict=True):
                section.leave(result if isinstance(result, Exception) else None)
                entry.settle(result)

    def fail(self, error: Exception) -> None:
        """Settle all waiting entries with `error`: each of them would fail in the same way."""
        with self._lock:
            entries, self._waiting = self._waiting, deque()
        for entry in entries:
            entry.settle(error)

    def _remove(self, entry: QueuedPurchase) -> bool:
        """Remove an entry that gives up; False if it is not in the queue."""
        with self._lock, suppress(ValueError):
            self._waiting.remove(entry)
            return True
        return False

    def _appoint_first(self) -> None:
        """Let the first entry lead if no entry does; the caller holds the lock."""
        if self._waiting and self._leader is None:
            self._leader = self._waiting[0]
            self._leader.calls.put(None)
