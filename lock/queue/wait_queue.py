"""The queue of a name: one list and one watch of its prefix, however many threads of this process wait.

The queue is the one of Go's client, of ``etcdctl lock`` and of etcd's lock RPC: a key each under ``NAME/``, bound to
a lease; the smallest create revision holds, and those that its rule admits with it (`lock.queue.admission`). A waiter
learns that it is its turn from the watch or, if the hold before was one of this very process, from its end. Nothing on
that path costs more when the queue is longer, or when more hold.

Error handling: whatever ends the watch, the queue is listed again and watched from there; meanwhile the keys keep their
places in etcd. A waiter learns of nothing but its turn, the loss of its key or session, and its cancellation.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from weakref import WeakValueDictionary

from lock.errors import AdmissionConflict, EtcdError, LockError, LockLost
from lock.etcd.client import Client
from lock.etcd.stream import Watch
from lock.model import Event, KeyValue, Snapshot
from lock.queue.admission import Admission
from lock.queue.ticket import Ticket
from lock.queue.view import QueueView
from lock.runtime.clock import now
from lock.runtime.interrupts import uninterrupted

logger = logging.getLogger(__name__)

_AUDIT_S = 5.0  # how often the view is checked against a list while there are waiters
_RETRY_S = (0.05, 0.1, 0.2, 0.5, 1.0)


class WaitQueue:
    """One name's queue as this process sees it, and this process's tickets in it. Thread-safe.

    Its thread lists and watches; it starts with the queue and ends with `close`.
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self.prefix = prefix
        self.trouble: str | None = None  # why the view may be out of date
        self._client = client
        self._view = QueueView()
        # Weak: an interrupt may come before the caller that adds a ticket knows that it did, and can remove it.
        self._tickets: WeakValueDictionary[str, Ticket] = WeakValueDictionary()
        self._watch: Watch | None = None
        self._failures = 0
        self._closed = threading.Event()
        self._idle_since = now()
        self._audited_at = now()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._follow, name=f"lock-queue {prefix}", daemon=True)
        self._thread.start()

    # Tickets

    def add(self, ticket: Ticket) -> None:
        """Tell `ticket` from now on when its turn comes or its key goes; to be called before the key is written."""
        with self._lock:
            self._view.follow(ticket.rule)
            self._tickets[ticket.key] = ticket

    def remove(self, ticket: Ticket) -> None:
        """Tell `ticket` nothing more; to be called before its key is deleted on purpose."""
        with self._lock:
            self._tickets.pop(ticket.key, None)
            self._idle_since = now()

    def written(self, ticket: Ticket, create_revision: int) -> None:
        """The write of the ticket's key is acknowledged."""
        with self._lock:
            ticket.written_at = create_revision
            gone = self._vanished(ticket)
        if gone:
            self._tell([ticket], [])

    @uninterrupted  # halfway a call would be lost: the next ones would wait for an audit
    def hand_over(self, key: str, create_revision: int) -> bool:
        """A hold of this process is over: tickets of ours that may hold now are called before the key is deleted.

        That is safe: while the key is there no other process has its turn; then those that were called have theirs.
        Whether all that may hold now are ours, so no other process waits for the deletion.
        """
        with self._lock:
            self._view.discard(key, create_revision)
            called = self._call()
            return bool(called) and all(key in self._tickets for key in called)

    def cancel(self, failure: Callable[[], LockError]) -> None:
        """End the wait of every ticket that waits; holds go on."""
        with self._lock:
            tickets = list(self._tickets.values())
        for ticket in tickets:
            ticket.cancel(failure())

    def fail_all(self, failure: Callable[[], LockError]) -> None:
        """Every ticket fails, at once."""
        with self._lock:
            tickets = list(self._tickets.values())
            self._tickets.clear()
        for ticket in tickets:
            ticket.fail(failure())

    # Looking

    def holder(self) -> KeyValue | None:
        """The key at the head, as far as this process knows."""
        with self._lock:
            return self._view.head()

    def await_holder(self, other_than: KeyValue | None, *, timeout: float) -> KeyValue | None:
        """The key at the head, as soon as it is another key or value than given; at the latest after `timeout` s."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed.is_set() or self._view.head() != other_than, timeout)
            return self._view.head()

    def has_waiters(self, rule: Admission) -> bool:
        """Whether any key has to wait by a ticket's rule, as far as this process knows."""
        with self._lock:
            return self._view.has_waiters(rule)

    def audit(self, *, timeout: float) -> bool:
        """Check the view against a list, if that was not done lately; whether it was done now.

        A difference means that the watch is late or has gone silent, so it is opened anew.
        """
        with self._lock:
            if now() - self._audited_at < _AUDIT_S:
                return False
            self._audited_at = now()
        if self.refresh(timeout) and self._watch is not None:
            logger.debug("the watch of %s was behind: watching anew", self.prefix)
            self._watch.close()
        return True

    def is_behind(self, ticket: Ticket) -> bool:
        """Whether the view is older than the ticket's key."""
        with self._lock:
            return ticket.written_at is not None and self._view.revision < ticket.written_at

    def refresh(self, timeout: float) -> bool:
        """Take a list; whether it told anything new."""
        try:
            snapshot = self._client.get_prefix(self.prefix, timeout=timeout)
        except EtcdError as error:
            self.trouble = str(error)
            return False
        self.trouble = None
        return self._take(snapshot)

    def is_waited_in(self) -> bool:
        """Whether a ticket of this process waits."""
        with self._lock:
            return any(ticket.token is None for ticket in self._tickets.values())

    def has_ticket(self, key: str) -> bool:
        """Whether an acquisition or a hold of this process relies on `key`."""
        with self._lock:
            return key in self._tickets

    def idle_s(self) -> float:
        """Seconds for which this process has had no ticket in this queue; 0.0 while it has one."""
        with self._lock:
            return 0.0 if self._tickets else now() - self._idle_since

    # Following

    def close(self) -> None:
        """Stop following; tickets hear nothing more. Does not wait for the thread: see `join`."""
        self._closed.set()
        with self._lock:
            watch = self._watch
            self._changed.notify_all()
        if watch is not None:
            watch.close()

    def join(self, timeout: float) -> None:
        """Wait for the thread to end; `timeout` in seconds."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _follow(self) -> None:
        while not self._closed.is_set():
            try:
                with contextlib.closing(self._client.watch(self.prefix)) as watch:
                    self._read(watch)
            except EtcdError as error:
                logger.info("following %s again after: %s", self.prefix, error)
                self._failed(error)
            except Exception as error:
                logger.exception("following %s again", self.prefix)
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.trouble = str(error)
        self._closed.wait(_RETRY_S[min(self._failures, len(_RETRY_S) - 1)])
        self._failures += 1

    def _read(self, watch: Watch) -> None:
        with self._lock:
            self._watch = watch
        if self._closed.is_set():  # close() may have come before it could see this watch
            return
        for position, events in enumerate(watch):
            if position == 0:
                known = self._view.revision
                self._take(self._client.get_prefix(self.prefix), known=known)
                self.trouble, self._failures = None, 0
            self._apply(events)

    def _apply(self, events: list[Event]) -> None:
        with self._lock:
            self._view.apply(events)
            ours = [(deleted, self._tickets.get(kv.key)) for deleted, kv in events]
            gone = [ticket for deleted, ticket in ours if ticket is not None and (deleted or self._vanished(ticket))]
            self._call()
            refused = self._refused()
        self._tell(gone, refused)

    @uninterrupted  # halfway the view would pass over events of keys that it does not have
    def _take(self, snapshot: Snapshot, *, known: int = 0) -> bool:
        """Take a list for the truth; whether it told anything new. For `known` see `QueueView.replace`."""
        with self._lock:
            before = self._view.in_order()
            taken = self._view.replace(snapshot, known=known)
            self._call()
            gone = [t for t in self._tickets.values() if self._vanished(t) or self._overtaken(t)] if taken else []
            if snapshot.revision < known:
                logger.warning("etcd has forgotten all since revision %d: it knew %d", snapshot.revision, known)
                gone += [t for t in self._tickets.values() if (t.created_at or 0) > snapshot.revision]
            refused = self._refused()
            news = before != self._view.in_order()  # not a key whose hold is over and which is still to be deleted
        self._tell(gone, refused)
        return news

    # With the lock held

    def _call(self) -> list[str]:
        """Grant the tickets of those who hold from now on; their keys."""
        self._changed.notify_all()
        called = self._view.advance()
        for rule, key in called:
            ticket = self._tickets.get(key)
            if ticket is not None and ticket.rule == rule and ticket.token is None:
                token = self._view.create_revision(key)
                assert token is not None
                ticket.grant(token)
        return [key for _, key in called]

    def _refused(self) -> list[tuple[Ticket, str]]:
        """The tickets that cannot wait behind the first key, by their own rules, and why."""
        conflicts = self._view.conflicts()
        if not conflicts:
            return []
        waiting = [ticket for ticket in self._tickets.values() if ticket.token is None and ticket.rule in conflicts]
        return [(t, conflicts[t.rule]) for t in waiting if self._view.create_revision(t.key) is not None]

    def _vanished(self, ticket: Ticket) -> bool:
        """Whether its key was there before the view's revision and yet is not in the view, or not that key any more."""
        was = ticket.created_at
        return was is not None and was <= self._view.revision and self._view.create_revision(ticket.key) != was

    def _overtaken(self, ticket: Ticket) -> bool:
        """Whether it was granted, yet its rule does not admit it; never so while etcd keeps its promises."""
        is_known = self._view.create_revision(ticket.key) is not None
        return ticket.token is not None and is_known and not self._view.admits(ticket.rule, ticket.key)

    @staticmethod
    def _tell(gone: list[Ticket], refused: list[tuple[Ticket, str]]) -> None:
        for ticket in gone:
            ticket.fail(LockLost(f"key {ticket.key!r} was deleted from elsewhere: the lock is not ours any more"))
        for ticket, conflict in refused:
            ticket.cancel(AdmissionConflict(conflict))
