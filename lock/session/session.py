"""One lease per process, and everything in this process that relies on it; when it is lost, all are told.

Error handling: a session that is lost stays lost. Make a new one.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import socket
import threading
import warnings
import weakref
from collections.abc import Callable

from lock.errors import LockCancelled, LockError
from lock.etcd.client import Client
from lock.queue.admission import EXCLUSIVE, Admission
from lock.queue.ticket import Ticket
from lock.queue.wait_queue import WaitQueue
from lock.runtime.clock import check_number
from lock.runtime.interrupts import run_detached, uninterrupted
from lock.runtime.lost_event import CallbackThread
from lock.runtime.timers import Timers
from lock.session.janitor import Janitor
from lock.session.lease import KeptLease
from lock.session.queues import SessionQueues

logger = logging.getLogger(__name__)

_LONGEST_TTL_S = 9_000_000_000  # of etcd

_open: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """A lease that all locks and threads of this process share.

    Args:
        client: made by `connect` in this very process.
        ttl: whole seconds after which etcd frees everything if this process dies; the server may grant more.
        name: shown to others as the owner of a lock; the program's host and process id if None.
        lease_id: a lease to take over, for example from a session that was orphaned, instead of granting one with
            `ttl`; from now on this session keeps it alive, and revokes it when it is closed.

    Attributes:
        lease_id: the lease in etcd.
        ttl: seconds that the server granted.
        lost: set when the lease is gone or has to be taken for gone.
        draining: whether `cancel_waiters` was called.

    Raises:
        ValueError: `ttl` is not a positive whole number; TypeError: it is not a number.
        LeaseNotFound: the lease to take over has expired or was revoked.
        EtcdUnavailable: no endpoint answered in time.
    """

    def __init__(self, client: Client, *, ttl: int = 10, name: str | None = None, lease_id: int | None = None) -> None:
        check_number(ttl, _is_ttl, "ttl is a whole number of seconds, 1 or more")
        self.client = client
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.callbacks = CallbackThread()
        self.lease = KeptLease(client, ttl, lease_id, owner=self.name, callbacks=self.callbacks)
        # Keys of the session before this one may still exist, and none may be used twice.
        self.queues = SessionQueues(client, self.lease, 1 if lease_id is None else secrets.randbits(48) << 16)
        self.lease_id, self.ttl, self.lost = self.lease.id, self.lease.ttl, self.lease.lost
        self.draining = False
        self._closed = False
        self._ending = threading.RLock()  # the garbage collector may close it in the same thread
        self.timers = Timers()
        self.janitor = Janitor(client, self.queues.strays)
        self.callbacks.start()
        self.queues.start()
        # None of the threads may know this object: it is closed when the program drops it.
        self.lease.add_listener(self.queues.close)
        _open.add(self)
        self.lease.start()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self.client.forked():  # a child that leaves its parent's `with`, by sys.exit() for example
            self.close()

    def remaining(self) -> float:
        """Seconds for which the lease is surely still ours; 0.0 once it is lost."""
        self.client.check_process()
        return self.lease.remaining()

    def ensure(self) -> None:
        """Raise `SessionLost` if the lease is not surely ours, `ForkedError` in a child process."""
        self.lease.ensure()

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when the session is over, also by `close` or `orphan`; at once if it is already.

        It is called after all holds and waits know. One thread of the session makes such calls, one after the other.
        """
        self.client.check_process()
        self.lease.on_lost(callback)

    def cancel_waiters(self) -> None:
        """Cancel every wait, now and from now on, with `LockCancelled`; holds go on. The first step of a clean stop.

        A thread behind a turn of this process (`CohortMutex`) is told when that ends, or by the mutex's own `cancel`.
        """
        self.client.check_process()
        self.draining = True
        self.queues.cancel(self._cancelled)

    def close(self) -> None:
        """Revoke the lease, which frees all that is held and queued; waiters get `SessionLost`. May be called again."""
        self._end("was closed", revokes=True)

    def orphan(self) -> None:
        """End the session, but leave its lease and keys until the TTL is over or another session takes them over."""
        self._end("was orphaned", revokes=False)

    def new_ticket(self, prefix: str, rule: Admission = EXCLUSIVE) -> Ticket:
        """For the recipes: a ticket with a key that no other acquisition ever uses (unlike Go's: etcd issue 10756)."""
        return Ticket(self.queues.new_key(prefix), self.callbacks, rule)

    def add_ticket(self, prefix: str, ticket: Ticket) -> WaitQueue:
        """For the recipes: the queue under `prefix`, followed from now on, with `ticket` in it.

        Raises `SessionLost` where the lease is gone, `LockCancelled` where the session is draining.
        """
        self.ensure()
        if self.draining:
            raise self._cancelled()
        queue = self._follow(prefix, ticket)
        if self.draining:
            ticket.cancel(self._cancelled())
        return queue

    @uninterrupted
    def _follow(self, prefix: str, ticket: Ticket) -> WaitQueue:
        ticket.add_listener(self.lease.renew_soon)  # a key that is gone may mean that the lease is
        return self.queues.add(prefix, ticket)

    def _end(self, reason: str, *, revokes: bool) -> None:
        self.client.check_process()  # before a thread is started: a forked child of gRPC may not survive that
        self._end_once(reason, revokes)

    @uninterrupted
    def _end_once(self, reason: str, revokes: bool) -> None:
        self._closed = True
        with self._ending:  # a second call, after an interrupt or as the interpreter ends, waits for the first
            if self.lease.stop(reason):
                self.timers.close()
                self.janitor.close()
                if revokes:
                    self.lease.revoke()
        self.queues.join(self.client.timeout)
        self.lease.join(self.client.timeout)
        self.callbacks.close(self.client.timeout)
        _open.discard(self)

    def _cancelled(self) -> LockError:
        return LockCancelled(f"session {self.name} is shutting down and waits for no lock any more")

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self.client.forked():
            return
        run_detached(self.close)  # the garbage collector may run in a thread that is inside one of our locks
        warnings.warn(
            f"session {self.name} was dropped without close(): write `with Session(...)`", ResourceWarning, stacklevel=2
        )


def _is_ttl(ttl: float) -> bool:
    return isinstance(ttl, int) and 1 <= ttl <= _LONGEST_TTL_S


@atexit.register
def _close_all() -> None:
    """Free at once what the program left locked; in a forked child the sessions are not its own."""
    for session in list(_open):
        try:
            session.close()
        except LockError as error:
            logger.debug("session %s was not closed at exit: %s", session.name, error)
