"""The line in which purchases of one process wait to be committed together.

The first in line leads: it gets the lock for all, takes a group out of the line, and commits it. From then on the next
one leads, so the lock is waited for while the group before is being committed. A leader who gives up passes the lead
on; one who finds that nobody can have the lock dissolves the line.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from app.sales.purchase import Purchase, Receipt


class Member:
    """A purchase in line, and the thread that waits for what comes of it.

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
        """What came of its purchase, for a member that is not in line any more; raises what stood in the way."""
        self._called.wait()
        if isinstance(self._result, Exception):
            raise self._result
        assert self._result is not None
        return self._result

    def appoint(self) -> None:
        """It leads from now on."""
        self.leads = True
        self._called.set()

    def settle(self, result: Receipt | Exception) -> None:
        """What came of its purchase."""
        self._result = result
        self._called.set()


class Line:
    """First come, first served. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[Member] = deque()
        self._lock = threading.Lock()

    def join(self, member: Member) -> None:
        """Stand at the end."""
        with self._lock:
            self._waiting.append(member)
            self._appoint_first()

    def take(self, most: int) -> list[Member]:
        """Take the first `most` out, the leader among them; they have to be settled."""
        with self._lock:
            group = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self._appoint_first()
        return group

    def leave(self, member: Member) -> bool:
        """Step out; False for a member that was taken out before."""
        with self._lock:
            if member not in self._waiting:
                return False
            self._waiting.remove(member)
            self._appoint_first()
        return True

    def dissolve(self, error: Exception) -> None:
        """Settle everybody with the same error."""
        with self._lock:
            members = list(self._waiting)
            self._waiting.clear()
        for member in members:
            member.settle(error)

    def _appoint_first(self) -> None:
        """The first in line leads; with the lock held."""
        if self._waiting:
            self._waiting[0].appoint()
