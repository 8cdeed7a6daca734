"""One lease per process, kept alive; when it is lost, everyone who relies on it is told.

The local deadline is counted from the moment a renewal was *sent*, with the TTL that the server granted: etcd counts
from a later moment, so a lease that is valid here is valid there. (Go's client counts from the answer, and believes
in its lease for a network delay too long.)

Error handling: a renewal that fails is repeated until the deadline. A session that is lost stays lost, even where etcd
might still have extended the lease: holds were told, and others may rely on that. Make a new Session.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import socket
import threading
import weakref

from lock.client import Client
from lock.clock import now
from lock.contender import identity
from lock.errors import EtcdError, LockCancelled, LockError, SessionLost
from lock.janitor import Janitor
from lock.ticket import Ticket
from lock.wait_queue import WaitQueue

logger = logging.getLogger(__name__)

_RETRY_S = 0.2
_open: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """A lease that all locks and threads of this process share.

    Args:
        client: made by `connect` in this very process.
        ttl: whole seconds after which etcd frees everything if this process dies; the server may grant more.
        name: what others read where they see who holds a lock; the program's host and process id if None.

    Attributes:
        lease_id: the lease in etcd.
        ttl: seconds that the server granted.
        lost: set when the lease is gone or has to be taken for gone.
        draining: whether `cancel_waiters` was called.

    Raises:
        ValueError: `ttl` is not a positive whole number.
        EtcdUnavailable: no endpoint answered in time.
    """

    def __init__(self, client: Client, *, ttl: int = 10, name: str | None = None) -> None:
        if not isinstance(ttl, int) or ttl < 1:
            raise ValueError(f"ttl is a whole number of seconds, 1 or more; got {ttl!r}")
        sent = now()
        self.lease_id, self.ttl = client.grant(ttl)
        self._deadline = sent + self.ttl
        self.client = client
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.lost = threading.Event()
        self._failure: SessionLost | None = None
        self.draining = False
        self._stopping = threading.Event()
        self._look = threading.Event()  # tells the keeper to look after the lease now
        self._queues: dict[str, WaitQueue] = {}
        self._serial = itertools.count(1)
        self._lock = threading.Lock()
        self._janitor = Janitor(client, doubt_s=self.ttl)
        self._keeper = threading.Thread(target=self._keep_alive, name="lock-session", daemon=True)
        self._keeper.start()
        _open.add(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def remaining(self) -> float:
        """Seconds for which the lease is surely still ours; 0.0 once it is lost."""
        return 0.0 if self.lost.is_set() else max(self._deadline - now(), 0.0)

    def ensure(self) -> None:
        """Raise `SessionLost` if the lease is not surely ours, `ForkedError` in a child process."""
        self.client.check_process()
        if self._failure is None and self.remaining() <= 0.0:
            self._lose(f"could not be kept alive for {self.ttl} s")
        if self._failure is not None:
            raise SessionLost(str(self._failure))

    def cancel_waiters(self) -> None:
        """Cancel every wait, now and from now on, with `LockCancelled`; holds go on. The first step of a clean stop."""
        self.draining = True
        for queue in self._followed():
            queue.cancel(self._cancelled, of=lambda ticket: True)

    def close(self) -> None:
        """Revoke the lease, which frees all that is held and queued; waiters get `SessionLost`. May be called again."""
        if self._stopping.is_set():
            return
        self.client.check_process()
        _open.discard(self)
        self._stopping.set()
        self._look.set()
        self._fail("was closed")
        self._janitor.close()
        try:
            self.client.revoke(self.lease_id)
        except EtcdError as error:
            logger.warning("lease %x is left to expire within %s s: %s", self.lease_id, self.ttl, error)
        self._join()

    # For the recipes

    def new_ticket(self, prefix: str) -> Ticket:
        """A ticket with a key that no other acquisition ever uses.

        Go names the key by the lease alone, so two acquisitions of one session share it and both "hold" (etcd issue
        10756).
        """
        return Ticket(f"{prefix}{self.lease_id:x}-{next(self._serial):x}")

    def enlist(self, prefix: str, ticket: Ticket) -> WaitQueue:
        """The queue under `prefix`, followed from now on, with `ticket` in it.

        Raises:
            SessionLost: the lease is gone.
            LockCancelled: the session is draining.
        """
        self.ensure()
        if self.draining:
            raise self._cancelled()
        ticket.on_lost(self._look.set)  # a key that is gone may mean that the lease is
        with self._lock:
            queue = self._queues.get(prefix)
            if queue is None:
                queue = self._queues[prefix] = WaitQueue(self.client, prefix)
            queue.enlist(ticket)
        if self._failure is not None:  # lost in the meantime, perhaps before the queue was there to be told
            queue.close(self._lost_again)
        if self.draining:
            queue.cancel(self._cancelled, of=lambda waiting: waiting is ticket)
        return queue

    def identity(self) -> bytes:
        """What stands in a key of this session and thread."""
        return identity(self.name)

    def lease_gone(self) -> None:
        """etcd told somebody else than the keeper that the lease is gone."""
        self._lose("has expired or was revoked")

    def sweep(self, key: str, create_revision: int | None = None) -> None:
        """Have the janitor delete a key; returns at once."""
        self._janitor.sweep(key, create_revision)

    # The lease

    def _keep_alive(self) -> None:
        pause = self.ttl / 3
        while not self.lost.is_set():
            self._look.wait(min(pause, self.remaining()))
            self._look.clear()
            if self._stopping.is_set():
                return
            self._close_idle_queues()
            pause = self.verify()
        self._give_back()

    def verify(self) -> float:
        """Renew the lease now; lose it if it is gone or its time is over. Seconds until it should be renewed again."""
        pause = _RETRY_S
        try:
            pause = self._renew()
        except EtcdError as error:
            logger.info("lease %x was not renewed, %.1f s left: %s", self.lease_id, self.remaining(), error)
        if self.remaining() <= 0.0:
            self._lose(f"could not be kept alive for {self.ttl} s")
        return pause

    def _renew(self) -> float:
        """Renew the lease once; seconds until the next time."""
        if self.remaining() <= 0.0:
            return 0.0
        sent = now()
        ttl = self.client.keep_alive(self.lease_id, timeout=min(self.client.timeout, self.remaining()))
        if ttl == 0:
            self.lease_gone()
        elif now() < self._deadline:
            self._deadline = sent + ttl
        return ttl / 3 - (now() - sent)

    def _give_back(self) -> None:
        """Revoke a lease that is lost to us but perhaps not to etcd, which extends all leases when it restarts."""
        until = now() + 2 * self.ttl
        while not self._stopping.wait(_RETRY_S) and now() < until:
            try:
                self.client.revoke(self.lease_id)
                return
            except EtcdError as error:
                logger.debug("lease %x was not revoked: %s", self.lease_id, error)

    def _lose(self, reason: str) -> None:
        if self._fail(reason):
            logger.warning("%s", self._failure)

    def _fail(self, reason: str) -> bool:
        """The session is over, for good; whether this was the first reason."""
        with self._lock:
            first = self._failure is None
            if self._failure is None:
                self._failure = SessionLost(
                    f"session {self.name}: lease {self.lease_id:x} {reason}; it holds nothing any more: make a new one"
                )
            self.lost.set()
        for queue in self._followed():
            queue.close(self._lost_again)
        return first

    def _lost_again(self) -> LockError:
        return SessionLost(str(self._failure))

    def _cancelled(self) -> LockError:
        return LockCancelled(f"session {self.name} is shutting down and waits for no lock any more")

    # The queues

    def _followed(self) -> list[WaitQueue]:
        with self._lock:
            return list(self._queues.values())

    def _close_idle_queues(self) -> None:
        with self._lock:
            idle = [(prefix, queue) for prefix, queue in self._queues.items() if queue.idle()]
            for prefix, _ in idle:
                del self._queues[prefix]
        for _, queue in idle:
            queue.close(self._lost_again)

    def _join(self) -> None:
        for queue in self._followed():
            queue.join(self.client.timeout)
        if threading.current_thread() is not self._keeper:
            self._keeper.join(self.client.timeout)


@atexit.register
def _close_all() -> None:
    """Free at once what the program left locked; in a forked child the sessions are not its own."""
    for session in list(_open):
        try:
            session.close()
        except LockError as error:
            logger.debug("session %s was not closed at exit: %s", session.name, error)
