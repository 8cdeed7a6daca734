"""A lease that is kept alive, and known to be lost in time.

The local deadline is counted from the moment a renewal was *sent*, with the TTL that the server granted: etcd counts
from a later moment, so a lease that is valid here is valid there. (Go's client counts from the answer.)

Error handling: a renewal that fails is repeated until the deadline. A lease that is lost stays lost, even where etcd
might still have extended it: holds were told.
"""

from __future__ import annotations

import logging
import threading

from lock.errors import EtcdError, LeaseNotFound, SessionLost
from lock.etcd.client import Client
from lock.runtime.clock import now
from lock.runtime.lost_event import CallbackThread, LostEvent

logger = logging.getLogger(__name__)

_RETRY_S = 0.2
_SLEEP_S = 1.0  # at most: a machine that was suspended learns soon after that its lease is over


class KeptLease(LostEvent):
    """A lease, renewed by its own thread until it is lost or `stop` is called. Thread-safe.

    It is a new one of `ttl` seconds, or the one that is `taken_over`; LeaseNotFound where that is gone. The message of
    its loss names `owner`.

    Attributes:
        id: the lease in etcd.
        ttl: seconds that the server granted.
    """

    def __init__(
        self, client: Client, ttl: int, taken_over: int | None, *, owner: str, callbacks: CallbackThread
    ) -> None:
        super().__init__(callbacks)
        sent = now()
        if taken_over is None:
            self.id, self.ttl = client.grant(ttl)
        else:
            self.id, self.ttl = taken_over, client.keep_alive(taken_over)
        if self.ttl == 0:
            raise LeaseNotFound(f"lease {self.id:x} has expired or was revoked: there is nothing to take over")
        self._deadline = sent + self.ttl
        self._client = client
        self._owner = owner
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._keep_alive, name="lock-lease", daemon=True)

    def start(self) -> None:
        """Begin to renew it; to be called once everything stands that its loss may touch."""
        self._thread.start()

    def remaining(self) -> float:
        """Seconds for which it is surely still ours; 0.0 once it is lost."""
        return 0.0 if self.lost.is_set() else max(self._deadline - now(), 0.0)

    def ensure(self) -> None:
        """Raise `SessionLost` if it is not surely ours, `ForkedError` in a child process."""
        self._client.check_process()
        if self.remaining() <= 0.0:
            self._lose(f"could not be kept alive for {self.ttl} s")
        self.check()

    def renew_soon(self) -> None:
        """Have the thread renew it now: there is a sign that it may be gone."""
        self._wake.set()

    def verify(self) -> float:
        """Renew it now; lose it if it is gone or its time is over. Seconds until it should be renewed again."""
        pause = _RETRY_S
        try:
            pause = self._renew()
        except EtcdError as error:
            logger.info("lease %x was not renewed, %.1f s left: %s", self.id, self.remaining(), error)
        except Exception:  # a machine that is out of threads or memory; all that relies on the lease has to be told
            logger.exception("lease %x was not renewed, %.1f s left", self.id, self.remaining())
        if self.remaining() <= 0.0:
            self._lose(f"could not be kept alive for {self.ttl} s")
        return pause

    def gone(self) -> None:
        """etcd does not know it any more."""
        self._lose("has expired or was revoked")

    def stop(self, reason: str) -> bool:
        """Renew it no more: from now on it counts as lost; whether it was not stopped before. Does not revoke it."""
        with self._lock:
            if self._stopping.is_set():
                return False
            self._stopping.set()
        self._wake.set()
        self.fail(self._failure(reason))
        return True

    def revoke(self) -> None:
        """Free at once what is bound to it."""
        try:
            self._client.revoke(self.id)
        except EtcdError as error:
            logger.warning("lease %x is left to expire within %s s: %s", self.id, self.ttl, error)

    def join(self, timeout: float) -> None:
        """Wait for the thread to end; `timeout` in seconds."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _keep_alive(self) -> None:
        due = self._deadline - self.ttl * 2 / 3
        while not self.lost.is_set():
            wanted = self._wake.wait(max(min(_SLEEP_S, due - now(), self.remaining()), 0.0))
            if wanted:  # what comes after a wait that ran out is for the next round
                self._wake.clear()
            if self._stopping.is_set():
                return
            if wanted or now() >= due or self.remaining() <= 0.0:
                pause = self.verify()
                due = now() + pause
        self._give_back()

    def _renew(self) -> float:
        """Renew it once; seconds until the next time."""
        if self.remaining() <= 0.0:
            return 0.0
        sent = now()
        ttl = self._client.keep_alive(self.id, timeout=min(self._client.timeout, self.remaining()))
        if ttl == 0:
            self.gone()
        elif now() < self._deadline:
            self._deadline = sent + ttl
        return ttl / 3 - (now() - sent)

    def _give_back(self) -> None:
        """Revoke what is lost to us but perhaps not to etcd, which extends all leases when it restarts."""
        until = now() + 2 * self.ttl
        while not self._stopping.wait(_RETRY_S) and now() < until:
            try:
                self._client.revoke(self.id)
                return
            except EtcdError as error:
                logger.debug("lease %x was not revoked: %s", self.id, error)
            except Exception:
                logger.exception("lease %x was not revoked", self.id)

    def _lose(self, reason: str) -> None:
        if self.fail(self._failure(reason)):
            logger.warning("%s", self.failure)

    def _failure(self, reason: str) -> SessionLost:
        return SessionLost(
            f"session {self._owner}: lease {self.id:x} {reason}; it holds nothing any more: make a new session"
        )
