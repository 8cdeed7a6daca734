"""This process's connection to etcd: one client and one Session, made when first needed and again when lost.

Made lazily, because gRPC does not survive a fork: each worker of gunicorn has its own.

Error handling: while one thread makes the session, all others wait for that attempt and share its failure. If they
took turns while etcd is unavailable, each would wait out the deadlines of all before it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from app.contract.keys import DEFAULT_ITEM
from app.sales.refusals import ShuttingDown, again
from lock import Client, CohortMutex, LockError, Mutex, Session
from lock.recipes.cohort import YieldingCohortMutex

AnyMutex = TypeVar("AnyMutex", Mutex, CohortMutex)


class EtcdSessions:
    """Gives out the mutexes of the sale, one for each item.

    Args:
        client: of etcd; `close` closes it, too.
        sale: the name of the first item's mutex. The name for item 7 is ``SALE:7``: with ``SALE/7``, the first item
            would wait for it, too.
        ttl: seconds until etcd frees the locks of this process, if it dies.
        instance: the name in the queue.

    Attributes:
        client: for other calls to the same etcd.
    """

    def __init__(self, client: Client, sale: str, *, ttl: int, instance: str) -> None:
        self._sale = sale
        self._ttl = ttl
        self._instance = instance
        self.client = client
        self._session: Session | None = None
        self._making = threading.Lock()
        self._outage: tuple[float, LockError] | None = None  # the last time that etcd gave no session, and the error
        self._mutexes: dict[str, Mutex] = {}
        self._cohorts: dict[str, CohortMutex] = {}
        self._draining = False
        self._lock = threading.Lock()

    def name(self, item: str = DEFAULT_ITEM) -> str:
        return self._sale if item == DEFAULT_ITEM else f"{self._sale}:{item}"

    def mutex(self, item: str = DEFAULT_ITEM) -> Mutex:
        """The mutex of an item: one object for each session, so that its `cancel` reaches all threads.

        Raises:
            EtcdUnavailable: no session could be made.
            ShuttingDown: `drain` was called.
        """
        mutex = self._mutexes.get(item)
        if mutex is not None and not mutex.session.lost.is_set() and not self._draining:
            return mutex
        return self._shared(self._mutexes, item, Mutex)

    def cohort(self, item: str = DEFAULT_ITEM) -> CohortMutex:
        """The same lock as `mutex`; the threads of this process hand it to each other."""
        return self._shared(self._cohorts, item, YieldingCohortMutex)

    def _shared(self, mutexes: dict[str, AnyMutex], item: str, make: Callable[[Session, str], AnyMutex]) -> AnyMutex:
        session = self.session()
        with self._lock:
            # Not "of another session": a late thread with a lost session must not replace the mutex of the next one.
            mutex = mutexes.get(item)
            if mutex is None or mutex.session.lost.is_set():
                mutex = mutexes[item] = make(session, self.name(item))
            return mutex

    def session(self) -> Session:
        """The session of this process; raises as `mutex` does."""
        came = time.monotonic()
        self.check_open()
        with self._making:
            if self._session is None or self._session.lost.is_set():
                if self._outage and self._outage[0] >= came:
                    raise again(self._outage[1])
                self._session = self._make_session()
            session = self._session
        self.check_open()  # a drain does not reach threads that wait for a session
        return session

    def _make_session(self) -> Session:
        """A new session; with `_making` held."""
        try:
            session = Session(self.client, ttl=self._ttl, name=self._instance)
        except LockError as error:
            self._outage = time.monotonic(), error
            raise
        if self._session:
            # Close the lost one, now that etcd answers: a restart of etcd extends leases, and its keys would block.
            threading.Thread(target=self._session.close, name="close-lost-session", daemon=True).start()
        return session

    def check_open(self) -> None:
        """Raise `ShuttingDown` if `drain` was called; for waits that are not in etcd."""
        if self._draining:
            raise ShuttingDown(f"instance {self._instance} is shutting down")

    def drain(self) -> None:
        """End all waits, later ones at once; holders go on."""
        self._draining = True
        if session := self._session:
            session.cancel_waiters()

    def close(self) -> None:
        """Revoke the lease and close the connection."""
        self.drain()
        if session := self._session:
            session.close()
        self.client.close()
