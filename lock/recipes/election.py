"""An election: a queue in which the first key names the leader, and all may watch.

The layout is that of Go's client: candidates queue under ``NAME/`` with a key each, whose value is what they proclaim.
So ``etcdctl elect NAME VALUE`` campaigns against this, and ``etcdctl elect --listen NAME`` sees the leaders here.

An `Observation` outlives broken connections. It ends by `close`, its own or the client's (`EtcdUnavailable`), or where
etcd no longer lets this user in (`EtcdDenied`).
"""

from __future__ import annotations

import queue
import threading
from functools import partial
from typing import Any, NamedTuple

from lock.core.view import QueueView
from lock.errors import EtcdDenied, EtcdError, EtcdUnavailable
from lock.etcd.client import Client
from lock.etcd.grpc_errors import CLOSED
from lock.etcd.watches import Update, Watch
from lock.model import KeyValue
from lock.recipes.attempt import Attempt
from lock.recipes.hold import Hold
from lock.recipes.queued_lock import QueuedLock, deadline
from lock.runtime.clock import now
from lock.runtime.interrupts import start_apart
from lock.session.session import Session

_POLL_S = 1.0  # how often an observer looks whether an audit is due
_AUDIT_S = 5.0
_RETRY_S = 0.5


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

        Raises as `ensure`; `EtcdUnavailable`: the value may have been proclaimed.
        """
        self.ensure()
        self._client.apart(self._overwrite, encode(value))


class Election:
    """One office, for which any thread of any process may campaign; costs nothing until used and may be shared.

    Arguments and errors are those of `Mutex`.
    """

    def __init__(self, session: Session, name: str) -> None:
        self._candidates = QueuedLock(session, name, Leadership)
        self.session = session
        self.name = name

    def __repr__(self) -> str:
        return f"<Election: {self._candidates._label}>"

    def campaign(self, value: str, *, timeout: float | None = None) -> Leadership:
        """Wait until elected, and proclaim `value`; as `Mutex.acquire`."""
        options: Any = {"tries": timeout == 0, "explains": True, "value": encode(value)}
        attempt = Attempt(threading.current_thread())
        return self._candidates._take(attempt, deadline(timeout), **options)  # type: ignore[return-value]

    def cancel(self) -> None:
        """Do the same as `Mutex.cancel`, for campaigns."""
        self._candidates.cancel()

    def leader(self) -> Leader | None:
        """The leader of this moment, or `None`; asks etcd, so it may raise `EtcdUnavailable`."""
        candidates = self.session.client.get_prefix(self._candidates._prefix).keys
        return _leader(candidates[0]) if candidates else None

    def observe(self) -> Observation:
        """Follow the leaders; raises `EtcdUnavailable` if etcd does not answer now. (Later it waits for etcd.)"""
        return Observation(self.session.client, self._candidates._prefix)


class Observation:
    """Each leader, and each value a leader proclaims, from the present one on: an iterator that waits for the next.

    Of changes that follow each other faster than they are read, only the latest is seen; a time without a leader is
    passed over. It needs no session, and goes on when one is lost. `close`, from any thread, leaving ``with`` or
    dropping it ends it; closing its client ends a wait with `EtcdUnavailable`.
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        client.get_prefix(prefix)  # a wrong address or password should fail here, not wait in silence
        self._updates: queue.SimpleQueue[Update | None] = queue.SimpleQueue()
        self._watch = client.apart(client.watches.add, prefix, self._updates.put, undo=partial(_end, client))
        self._view = QueueView()
        self._listed_at = now()
        self._closed = False
        self._seen: KeyValue | None = None

    def __iter__(self) -> Observation:
        return self

    def __next__(self) -> Leader:
        self._client.check_process()
        while not self._closed:
            try:
                leader = self._client.apart(self._take, self._next_update())
            except BaseException:  # an interrupt may have kept events from the view
                self._view = QueueView()
                self._updates.put([])
                raise
            if leader is not None and not self._closed:
                return leader
        raise StopIteration

    def __enter__(self) -> Observation:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._client.forked():
            self.close()

    def close(self) -> None:
        """End it; a thread that waits for the next leader is woken. May be called again."""
        self._closed = True
        self._client.apart(_end, self._client, self._watch)
        self._updates.put(None)

    def __del__(self) -> None:
        if not (getattr(self, "_closed", True) or self._client.forked()):
            start_apart(partial(_end, self._client, self._watch))  # this may run inside the very lock that it takes

    def _next_update(self) -> Update | None:
        """What the watch tells next; `None` if it has told nothing for a while. Waits in this thread."""
        try:
            return self._updates.get(timeout=_POLL_S)
        except queue.Empty:
            return None

    def _take(self, update: Update | None) -> Leader | None:
        """The next leader, if this tells of one; list when the watch stands, and now and then: it may keep silent."""
        if self._client.closed:
            raise EtcdUnavailable(CLOSED)
        if isinstance(update, EtcdDenied):
            self._closed = True
            raise update
        self._client.watches.check()
        try:
            if update and not isinstance(update, EtcdError):
                self._view.apply(update)
            elif update == [] or now() - self._listed_at >= _AUDIT_S:
                self._listed_at = now()
                self._view.replace(self._client.get_prefix(self._prefix), known=self._view.revision)
        except EtcdUnavailable:
            threading.Event().wait(_RETRY_S)
            self._updates.put([])
        kv = self._view.head()
        if kv == self._seen:
            return None
        self._seen = kv
        return None if kv is None else _leader(kv)


def _end(client: Client, watch: Watch) -> None:
    client.watches.remove(watch)
    client.watches.check(is_done=True)


def _leader(kv: KeyValue) -> Leader:
    return Leader(kv.key, kv.value.decode("utf-8", "surrogateescape"), kv.create_revision, kv.lease_id)


def encode(value: str) -> bytes:
    """What a candidate's key says; TypeError if it is no text."""
    if not isinstance(value, str):
        raise TypeError(f"what a candidate proclaims is a text; got {value!r}")
    return value.encode("utf-8", "surrogateescape")
