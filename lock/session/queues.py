"""The queues that a session follows: joined, checked and left.

One thread looks after all of them, at one pace, however many names there are. An unexpected error is logged, and the
next look follows.
"""

from __future__ import annotations

import itertools
import logging
import re
import threading
from collections.abc import Callable

from lock.errors import LockError, SessionLost
from lock.etcd.client import Client
from lock.queue.ticket import Ticket
from lock.queue.wait_queue import WaitQueue
from lock.session.lease import KeptLease

logger = logging.getLogger(__name__)

_LOOK_S = 1.0  # between two rounds over the queues
_PACE_S = 0.05  # between two audits
_IDLE_S = 5.0  # how long a queue is followed after its last ticket, for the next one is often soon
_IDLE_QUEUES = 64  # how many such queues are followed at most: each costs two threads here and a watch in etcd


class SessionQueues:
    """Every queue with a ticket of the session, by prefix, and the idle ones for a while. Thread-safe.

    `first` is the number of its first key (the session before it on this lease had others), `followed` the queues.
    """

    def __init__(self, client: Client, lease: KeptLease, first: int) -> None:
        self.followed: dict[str, WaitQueue] = {}
        self._client = client
        self._lease = lease
        self._first = first
        self._last: int | None = None
        self._numbers = itertools.count(first)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="lock-queues", daemon=True)

    def start(self) -> None:
        """Begin to look after them."""
        self._thread.start()

    def new_key(self, prefix: str) -> str:
        """The name of a key that no other acquisition ever uses."""
        self._last = number = next(self._numbers)
        return f"{prefix}{self._lease.id:x}-{number:x}"

    def strays(self) -> set[str]:
        """The keys of the lease that this very session has named and that belong to no ticket (any more); asks etcd.

        Other keys of the lease are none of ours: another session may have left them for this one to keep.
        """
        if self._last is None:
            return set()
        return {key for key in self._client.lease_keys(self._lease.id) if self._is_stray(key)}

    def add(self, prefix: str, ticket: Ticket) -> WaitQueue:
        """The queue under `prefix`, followed from now on, with `ticket` in it."""
        with self._lock:
            is_new = prefix not in self.followed
            if is_new:
                self.followed[prefix] = WaitQueue(self._client, prefix)
            queue = self.followed[prefix]
            queue.add(ticket)
        if is_new:
            self._close_idle()
        if self._lease.lost.is_set():  # perhaps the queue was not there yet to be told
            self.close()
        return queue

    def cancel(self, failure: Callable[[], LockError]) -> None:
        """End the wait of every ticket that waits; holds go on."""
        for queue in self._all():
            queue.cancel(failure)

    def close(self) -> None:
        """Stop following; every ticket fails. Does not wait for the threads: see `join`."""
        self._closed.set()
        queues = self._all()
        for queue in queues:
            queue.fail_all(self._over)
        for queue in queues:  # which may take its time
            queue.close()

    def join(self, timeout: float) -> None:
        """Wait for each thread to end, for `timeout` seconds at most."""
        for queue in self._all():
            queue.join(timeout)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _is_stray(self, key: str) -> bool:
        number = re.fullmatch(f"{self._lease.id:x}-([0-9a-f]+)", key.rpartition("/")[2])
        if number is None or self._last is None or not self._first <= int(number[1], 16) <= self._last:
            return False
        return not any(key.startswith(queue.prefix) and queue.has_ticket(key) for queue in self._all())

    def _all(self) -> list[WaitQueue]:
        with self._lock:
            return list(self.followed.values())

    def _work(self) -> None:
        while not self._closed.wait(_LOOK_S):
            try:
                self._close_idle()
                self._audit()
            except Exception:
                logger.exception("looking after the queues has failed")

    def _audit(self) -> None:
        """Check the views that threads rely on: one list after the other, and not all at once."""
        for queue in self._all():
            if queue.is_waited_in() and queue.audit(timeout=self._client.timeout) and self._closed.wait(_PACE_S):
                return

    def _close_idle(self) -> None:
        with self._lock:
            idle = sorted((idle_s, prefix) for prefix, queue in self.followed.items() if (idle_s := queue.idle_s()) > 0)
            old = [prefix for place, (idle_s, prefix) in enumerate(idle) if idle_s > _IDLE_S or place >= _IDLE_QUEUES]
            queues = [self.followed.pop(prefix) for prefix in old]
        for queue in queues:
            queue.close()

    def _over(self) -> LockError:
        return self._lease.again() or SessionLost("the session is over")
