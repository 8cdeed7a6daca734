"""This process's connection to etcd: one client and one Session, made when first needed and again when lost.

Made lazily, because gRPC does not survive a fork: each worker of gunicorn has its own.

Error handling: while one thread makes the session, all others wait for that attempt and share its failure. If they
took turns while etcd is unavailable, each would wait out the deadlines of all before it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from app.sales.purchase import DEFAULT_ITEM
from app.sales.refusals import ShuttingDown
from lock import Client, CohortMutex, MultiLock, Mutex, Session, connect

logger = logging.getLogger(__name__)

RPC_TIMEOUT = 2.0

AnyMutex = TypeVar("AnyMutex", Mutex, CohortMutex)


class EtcdSessions:
    """Gives out the mutexes of the sale, one for each item.

    Args:
        endpoints: ``HOST:PORT`` of etcd, or several separated by commas.
        sale: the name of the first item's mutex. The name for item 7 is ``SALE:7``: with ``SALE/7``, the first item
            would wait for it, too.
        ttl: seconds until etcd frees the locks of this process, if it dies.
        instance: the name in the queue.

    Attributes:
        client: for other calls to the same etcd.
    """

    def __init__(self, endpoints: str, sale: str, *, ttl: int, instance: str) -> None:
        self._sale = sale
        self._ttl = ttl
        self._instance = instance
        self.client: Client = connect(endpoints, timeout=RPC_TIMEOUT)
        self._attempt: Future[Session] | None = None
        self._lost: list[Session] = []
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
        return self._shared(self._mutexes, item, Mutex)

    def cohort(self, item: str = DEFAULT_ITEM) -> CohortMutex:
        """As `mutex`; the threads of this process hand it to each other."""
        return self._shared(self._cohorts, item, partial(CohortMutex, together=True))

    def multi(self, items: Iterable[str]) -> MultiLock:
        """One lock over the mutexes of several items; raises as `mutex` does."""
        return MultiLock(self.session(), map(self.name, items))

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
        with self._lock:
            self.check_open()
            before = self._attempt
            if before is not None and not _failed(before):
                attempt = before
            else:
                attempt = self._attempt = Future()
                if lost := _made(before):
                    self._lost.append(lost)
        if attempt is not before:
            self._make_session(attempt)
        session = attempt.result()
        with self._lock:
            self.check_open()  # a drain does not reach threads that wait for a session
        return session

    def check_open(self) -> None:
        """Raise `ShuttingDown` if `drain` was called; for waits that are not in etcd."""
        if self._draining:
            raise ShuttingDown(f"instance {self._instance} is shutting down")

    def _make_session(self, attempt: Future[Session]) -> None:
        try:
            attempt.set_result(Session(self.client, ttl=self._ttl, name=self._instance))
        except BaseException as error:
            attempt.set_exception(error)
            return
        # Close lost sessions, now that etcd answers: a restart extends all leases, and their keys would block.
        with self._lock:
            lost, self._lost = self._lost, []
        for session in lost:  # in the background, because etcd may fail again
            threading.Thread(target=session.close, name="close-lost-session", daemon=True).start()

    def drain(self) -> None:
        """End all waits, later ones at once; holders go on."""
        with self._lock:
            self._draining = True
            session, cohorts = _made(self._attempt), list(self._cohorts.values())
        if session is not None:
            session.cancel_waiters()
        for cohort in cohorts:
            cohort.cancel()

    def close(self) -> None:
        """Revoke the lease and close the connection."""
        self.drain()
        current = _made(self._attempt)
        for session in [*self._lost, *([current] if current else [])]:
            session.close()
        self.client.close()


def _made(attempt: Future[Session] | None) -> Session | None:
    return attempt.result() if attempt is not None and attempt.done() and attempt.exception() is None else None


def _failed(attempt: Future[Session]) -> bool:
    """Whether the attempt has ended without a session, or with one that is lost by now."""
    if not attempt.done():
        return False
    session = _made(attempt)
    return session is None or session.lost.is_set()
