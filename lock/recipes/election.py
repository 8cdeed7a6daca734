"""An election: a queue in which the first key names the leader, and all may watch.

The layout is that of Go's client: candidates queue under ``NAME/`` with a key each, whose value is what they proclaim.
So ``etcdctl elect NAME VALUE`` campaigns against this, and ``etcdctl elect --listen NAME`` sees the leaders here.

An `Observation` outlives broken connections, and ends only by `close`, its own or the client's (`EtcdUnavailable`).
"""

from __future__ import annotations

from typing import NamedTuple

from lock.errors import EtcdUnavailable
from lock.etcd.client import Client
from lock.etcd.grpc_errors import CLOSED
from lock.model import KeyValue
from lock.queue.names import queue_prefix
from lock.queue.wait_queue import WaitQueue
from lock.recipes.acquisition import Acquisition
from lock.recipes.cancellation import CancelToken
from lock.recipes.hold import Hold
from lock.runtime.clock import deadline
from lock.runtime.execution import BLOCKING, Execution, run_blocking
from lock.runtime.interrupts import run_detached
from lock.session.session import Session

_POLL_S = 1.0  # how often an observer looks whether an audit is due


class Leader(NamedTuple):
    """The leader, as all see it: `token` rises with every new leader, but not with what a leader proclaims."""

    key: str
    value: str
    token: int
    lease_id: int


class Leadership(Hold):
    """An election won; made by `Election.campaign`. Leaving ``with`` resigns."""

    def proclaim(self, value: str) -> None:
        """Let all observers see another value, without a new election.

        Raises:
            LockLost: it leads no more.
            NotHeld: it has resigned.
            EtcdUnavailable: etcd did not answer in time; the value may have been proclaimed.
        """
        run_blocking(self.proclaiming, BLOCKING, value)

    async def proclaiming(self, execution: Execution, value: str) -> None:
        self.ensure()
        await self.overwriting(execution, _encode(value))

    def resign(self) -> None:
        """Let the next candidate lead; as `release`."""
        self.release()


class Election:
    """One office, for which any thread of any process may campaign; costs nothing until used and may be shared.

    Arguments and errors are those of `Mutex`.
    """

    def __init__(self, session: Session, name: str) -> None:
        self.session = session
        self.name = name
        self._prefix = queue_prefix(name)

    def campaign(self, value: str, *, timeout: float | None = None, cancel: CancelToken | None = None) -> Leadership:
        """Wait until elected, and proclaim `value`; use the result in ``with``, or resign.

        Arguments and errors are those of `Mutex.acquire`.
        """
        return run_blocking(self.campaigning, BLOCKING, value, deadline(timeout), cancel)

    async def campaigning(
        self, execution: Execution, value: str, until: float, cancel: CancelToken | None = None
    ) -> Leadership:
        acquisition = Acquisition(
            self.session, self.name, self._prefix, Leadership, value=_encode(value), execution=execution
        )
        return await acquisition.run(until, cancel or CancelToken())

    def leader(self) -> Leader | None:
        """The leader of this moment, or None; asks etcd, so it may raise `EtcdUnavailable`."""
        candidates = self.session.client.get_prefix(self._prefix).keys
        return _leader(candidates[0]) if candidates else None

    def observe(self) -> Observation:
        """Follow the leaders; raises `EtcdUnavailable` where etcd does not answer now. (Later it waits for etcd.)"""
        return Observation(self.session.client, self._prefix)


class Observation:
    """Each leader, and each value a leader proclaims, from the present one on: an iterator that waits for the next.

    Of changes that follow each other faster than they are read, only the latest is seen; a time without a leader is
    passed over. It needs no session, and goes on when one is lost. `close`, from any thread, leaving ``with`` or
    dropping it ends it; closing its client ends a wait with `EtcdUnavailable`.
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        client.get_prefix(prefix)  # a wrong address or password should fail here, not wait in silence
        self._queue = WaitQueue(client, prefix)
        self._closed = False
        self._seen: KeyValue | None = None

    def __iter__(self) -> Observation:
        return self

    def __next__(self) -> Leader:
        self._client.check_process()
        while not self._closed:
            if self._client.closed:
                raise EtcdUnavailable(CLOSED)
            kv = self._queue.await_holder(self._seen, timeout=_POLL_S)
            if kv == self._seen:
                self._queue.audit(timeout=self._client.timeout)
                continue
            self._seen = kv
            if kv is not None:
                return _leader(kv)
        raise StopIteration

    def __enter__(self) -> Observation:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._client.forked():
            self.close()

    def close(self) -> None:
        """End it; a thread that waits for the next leader is woken. May be called again."""
        self._client.check_process()
        self._closed = True
        self._queue.close()
        self._queue.join(self._client.timeout)

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._client.forked():
            return
        run_detached(self._queue.close)


def _leader(kv: KeyValue) -> Leader:
    return Leader(kv.key, kv.value.decode("utf-8", "surrogateescape"), kv.create_revision, kv.lease_id)


def _encode(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
