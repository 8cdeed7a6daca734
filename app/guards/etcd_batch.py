"""Group commit: the holder of the etcd mutex commits all waiting purchases of its instance in one fenced script.

They stand in a commit queue. The first entry leads: its thread gets the lock for all, takes a group out of the queue,
and commits it. Then the next entry leads, and waits for the lock while the group before is being committed. A leader
that times out passes the lead on; one that cannot reach etcd fails all entries.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from app.guards.base import Guard, Promise, Tools, release
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import InDoubt, again
from lock import LockTimeout, Turn

MOST_AT_ONCE = 128
_RESULT_S = 1.0  # how much longer than its own time a purchase waits for the result of its leader


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

    def _appoint_first(self) -> None:
        """The first entry leads; with the lock held."""
        if self._waiting:
            self._waiting[0].appoint()


class EtcdBatchGuard(Guard):
    """Purchases of one group share a critical section and its token; each has its own order and outcome.

    The section lasts as long as the longest think time in the group: its buyers think at the same time. A group has at
    most `MOST_AT_ONCE` purchases. The lock is the one of `etcd-cohort`, whose turns are groups here: the first purchase
    in the other instance waits for at most `slice`, one group and one hand-over.

    Error handling: a failure before the script is sent, or a refusal by it, has written nothing for any of them; a
    lost answer leaves the whole group in doubt. A purchase that times out leaves the queue, unless a group has taken
    it. A leader that cannot reach etcd learns so a moment after its time is up, so the entries behind it wait for its
    result.
    """

    name = "etcd-batch"
    promise = Promise.EXACT
    description = "An etcd mutex whose holder commits all purchases that wait in its instance in one script. Exact."
    waits_in_etcd = True

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queues = {item: CommitQueue() for item in tools.stocks}

    def buy(self, purchase: Purchase) -> Receipt:
        queue, entry = self.queues[purchase.item], Entry(purchase)
        queue.add(entry)
        try:
            if not entry.wait(self.time_left(purchase) + _RESULT_S) and queue.remove(entry):
                name = self.sessions.name(purchase.item)
                raise LockTimeout(f"others of this instance waited for lock {name!r}, but not in time")
            if entry.leads:
                self._lead(queue, entry)
        except BaseException:
            queue.remove(entry)  # or the queue would wait for this thread
            raise
        return entry.result()

    def _lead(self, queue: CommitQueue, leader: Entry) -> None:
        try:
            turn = self.sessions.cohort(leader.purchase.item).acquire(timeout=self.time_left(leader.purchase))
        except LockTimeout:
            raise  # the next one has a little more time
        except Exception as error:
            for entry in queue.take(len(queue)):
                entry.settle(error)  # each of them would fail with the same error
            raise
        try:
            self._commit(queue.take(MOST_AT_ONCE), turn)
        finally:
            release(turn, leader.purchase)

    def _commit(self, group: Sequence[Entry], turn: Turn) -> None:
        purchases = [entry.purchase for entry in group]
        stock = self.stock(purchases[0].item)
        for purchase in purchases:
            purchase.enter(turn.token)
        interrupted = InDoubt("the thread that committed this purchase was interrupted")
        results: Sequence[Receipt | Exception] = [interrupted] * len(group)
        try:
            time.sleep(max(purchase.hold_s for purchase in purchases))
            turn.ensure()
            results = stock.sell_group(purchases, fence=turn.token)
        except Exception as error:
            results = [error] * len(group)
        finally:
            for entry, result in zip(group, results, strict=True):
                entry.purchase.leave(result if isinstance(result, Exception) else None)
                stock.note_sold_out(entry.purchase.decided, entry.purchase.entered)
                entry.settle(result)
