"""This process's line to etcd: one client and one Session, made when first needed and made anew when lost.

Made lazily, because gRPC does not survive a fork: gunicorn's master must not have it, and each worker has its own.

Error handling: while one thread makes the session, all others wait for that one attempt and share its failure. If they
took turns at an etcd that is away, each would wait out the deadlines of all before it.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from app.refusals import ShuttingDown
from lock import Client, CohortMutex, Contender, Mutex, Session, connect

logger = logging.getLogger(__name__)

RPC_TIMEOUT = 2.0


class Coordination:
    """Gives out the mutex of the sale.

    Args:
        endpoints: ``HOST:PORT`` of etcd, or several separated by commas.
        name: the mutex; everybody who names the same one queues together, ``etcdctl lock`` included.
        ttl: seconds until etcd frees what this process holds, if it dies.
        instance: the name others see in the queue.
    """

    def __init__(self, endpoints: str, name: str, *, ttl: int, instance: str) -> None:
        self.name = name
        self._ttl = ttl
        self._instance = instance
        self._client: Client = connect(endpoints, timeout=RPC_TIMEOUT)
        self._attempt: Future[Session] | None = None
        self._lost: list[Session] = []
        self._cohort: CohortMutex | None = None
        self._draining = False
        self._lock = threading.Lock()

    def mutex(self) -> Mutex:
        """The mutex of the sale, on a session that is alive.

        Raises:
            EtcdUnavailable: there is no session, and none could be made.
            ShuttingDown: `drain` was called.
        """
        return Mutex(self.session(), self.name)

    def cohort(self) -> CohortMutex:
        """The mutex of the sale as the threads of this process hand it to each other.

        There is one object for as long as there is one session, or the threads would not find each other. Raises as
        `mutex` does.
        """
        session = self.session()
        with self._lock:
            # Not "of another session": a thread that comes late with a lost one must not replace the mutex of the next.
            if self._cohort is None or self._cohort.session.lost.is_set():
                self._cohort = CohortMutex(session, self.name)
            return self._cohort

    def session(self) -> Session:
        """The session of this process; raises as `mutex` does."""
        with self._lock:
            if self._draining:
                raise ShuttingDown(f"instance {self._instance} is shutting down")
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
                self._bury()
        return attempt.result()

    def _bury(self) -> None:
        """Close the sessions that were lost, now that etcd answers again.

        It extends all leases when it restarts: what is not given back stands in everybody's way for a whole TTL.
        """
        with self._lock:
            lost, self._lost = self._lost, []
        for session in lost:
            # In the background, because each may wait for an etcd that fails again.
            threading.Thread(target=session.close, name="close-lost-session", daemon=True).start()

    def _make_session(self, attempt: Future[Session]) -> None:
        try:
            attempt.set_result(Session(self._client, ttl=self._ttl, name=self._instance))
        except BaseException as error:
            attempt.set_exception(error)

    def contenders(self) -> list[Contender]:
        """Who holds the mutex and who waits for it, in order; raises as `mutex` does."""
        return self.mutex().contenders()

    def ping(self, *, timeout: float) -> None:
        """Ask etcd whether it is there; raises `EtcdUnavailable` after `timeout` seconds at the latest."""
        self._client.status(timeout=timeout)

    def drain(self) -> None:
        """Send everybody away who waits, now and from now on; whoever holds goes on."""
        with self._lock:
            self._draining = True
            session, cohort = _made(self._attempt), self._cohort
        if session is not None:
            session.cancel_waiters()
        if cohort is not None:
            cohort.cancel()

    def close(self) -> None:
        """Revoke the lease and hang up."""
        self.drain()
        current = _made(self._attempt)
        for session in [*self._lost, *([current] if current else [])]:
            session.close()
        self._client.close()


def _made(attempt: Future[Session] | None) -> Session | None:
    return attempt.result() if attempt is not None and attempt.done() and attempt.exception() is None else None


def _failed(attempt: Future[Session]) -> bool:
    """Whether the attempt has brought no session, or one that is lost by now."""
    if not attempt.done():
        return False
    session = _made(attempt)
    return session is None or session.lost.is_set()
