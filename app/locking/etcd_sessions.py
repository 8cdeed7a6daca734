"""This process's connection to etcd: one client and one Session, made when first needed and made anew when lost.

Made lazily, because gRPC does not survive a fork: gunicorn's master must not have it, and each worker has its own.

Error handling: while one thread makes the session, all others wait for that one attempt and share its failure. If they
took turns at an etcd that is away, each would wait out the deadlines of all before it.
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
from lock import Client, CohortMutex, Contender, MultiLock, Mutex, Session, connect

logger = logging.getLogger(__name__)

RPC_TIMEOUT = 2.0

AnyMutex = TypeVar("AnyMutex", Mutex, CohortMutex)


class EtcdSessions:
    """Gives out the mutexes of the sale, one for each item.

    Args:
        endpoints: ``HOST:PORT`` of etcd, or several separated by commas.
        sale: the name of the first item's mutex; all that use this name queue together, ``etcdctl lock`` included. The
            name for item 7 is ``SALE:7``: with ``SALE/7``, the first item would wait for it, too.
        ttl: seconds until etcd frees what this process holds, if it dies.
        instance: the name others see in the queue.

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
        """The name of an item's mutex."""
        return self._sale if item == DEFAULT_ITEM else f"{self._sale}:{item}"

    def mutex(self, item: str = DEFAULT_ITEM) -> Mutex:
        """The mutex of an item: one object for as long as there is one session, so its `cancel` reaches all threads.

        Raises:
            EtcdUnavailable: there is no session, and none could be made.
            ShuttingDown: `drain` was called.
        """
        return self._shared(self._mutexes, item, Mutex)

    def cohort(self, item: str = DEFAULT_ITEM) -> CohortMutex:
        """As `mutex`; the threads of this process hand it to each other."""
        return self._shared(self._cohorts, item, partial(CohortMutex, together=True))

    def multi(self, items: Iterable[str]) -> MultiLock:
        """The mutexes of several items, to be locked together; raises as `mutex` does."""
        return MultiLock(self.session(), map(self.name, items))

    def _shared(self, mutexes: dict[str, AnyMutex], item: str, make: Callable[[Session, str], AnyMutex]) -> AnyMutex:
        session = self.session()
        with self._lock:
            # Not "of another session": a thread that comes late with a lost one must not replace the mutex of the next.
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
            if _made(attempt) is not None:
                self._close_lost()
        session = attempt.result()
        with self._lock:
            self.check_open()  # a drain cannot reach those who wait for a session that is still being made
        return session

    def check_open(self) -> None:
        """Raise `ShuttingDown` if `drain` was called; a wait that is not one for etcd has to ask."""
        if self._draining:
            raise ShuttingDown(f"instance {self._instance} is shutting down")

    def _close_lost(self) -> None:
        """Close the sessions that were lost, now that etcd answers again.

        etcd extends all leases when it restarts: what is not revoked blocks the queue for a whole TTL.
        """
        with self._lock:
            lost, self._lost = self._lost, []
        for session in lost:
            # In the background, because each may wait for an etcd that fails again.
            threading.Thread(target=session.close, name="close-lost-session", daemon=True).start()

    def _make_session(self, attempt: Future[Session]) -> None:
        try:
            attempt.set_result(Session(self.client, ttl=self._ttl, name=self._instance))
        except BaseException as error:
            attempt.set_exception(error)

    def contenders(self, item: str = DEFAULT_ITEM) -> list[Contender]:
        """The holder of an item's mutex and those that wait for it, in order; raises as `mutex` does."""
        return self.mutex(item).contenders()

    def ping(self, *, timeout: float) -> None:
        """Ask etcd whether it is there; raises `EtcdUnavailable` after `timeout` seconds at the latest."""
        self.client.status(timeout=timeout)

    def drain(self) -> None:
        """End all waits, now and from now on; a holder goes on."""
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
    """Whether the attempt has brought no session, or one that is lost by now."""
    if not attempt.done():
        return False
    session = _made(attempt)
    return session is None or session.lost.is_set()
