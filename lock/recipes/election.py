"""An election: a queue in which the first key names the leader, and all may watch.

The layout is that of Go's client: candidates queue under ``NAME/`` with a key each, whose value is what they proclaim.
So ``etcdctl elect NAME VALUE`` campaigns against this, and ``etcdctl elect --listen NAME`` sees the leaders here.

An `Observation` outlives broken connections, and ends only by `close`, its own or the client's (`EtcdUnavailable`).
"""

from __future__ import annotations

import queue
import threading
from typing import Any, NamedTuple

from lock.core.view import QueueView
from lock.errors import EtcdError, EtcdUnavailable
from lock.etcd.client import Client
from lock.etcd.grpc_errors import CLOSED
from lock.etcd.watches import WatchIterator
from lock.model import Event, KeyValue
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

        Raises:
            LockLost: it leads no more.
            NotHeld: it was released.
            EtcdUnavailable: etcd did not answer in time; the value may have been proclaimed.
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
        """Wait until elected, and proclaim `value`; use the result in ``with``, or release it.

        Arguments and errors are those of `Mutex.acquire`.
        """
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
        client.get_prefix(prefix)  # a wrong address or password should fail here, not wait in silence
        self._prefix = prefix
        self._view = QueueView()
        self._watch: WatchIterator | None = client.watch(prefix)
        self._listed_at = now()
        self._closed = False
        self._seen: KeyValue | None = None

    def __iter__(self) -> Observation:
        return self

    def __next__(self) -> Leader:
        self._client.check_process()
        while not self._closed:
            try:
                leader = self._client.apart(self._take, self._next_events())
            except BaseException:  # an interrupt may have kept events from the view
                self._watch_anew()
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
        self._client.check_process()
        self._closed = True
        watch = self._watch
        if watch is not None:
            watch.close()

    def __del__(self) -> None:
        watch = getattr(self, "_watch", None)
        if watch is None or self._closed or self._client.forked():
            return
        start_apart(watch.close)  # this may run inside the very lock that closing takes

    def _next_events(self) -> list[Event] | EtcdError | None:
        """What the watch tells next; `None` if it has told nothing for a while. Waits in this thread."""
        watch = self._watch
        try:
            return None if watch is None or self._client.closed else watch.next(_POLL_S)
        except queue.Empty:
            return None
        except EtcdError as error:
            return error

    def _take(self, events: list[Event] | EtcdError | None) -> Leader | None:
        """The next leader, if these tell of one; list when the watch stands, and now and then: it may keep silent."""
        if self._client.closed:
            raise EtcdUnavailable(CLOSED)
        try:
            if isinstance(events, EtcdError):
                raise events
            if self._watch is None:
                self._watch = self._client.watch(self._prefix)
            elif events:
                self._view.apply(events)
            elif events is not None:
                self._list()
            else:
                self._client.watches.check()
                if now() - self._listed_at >= _AUDIT_S and self._list():
                    self._watch_anew()
        except EtcdError:
            self._watch_anew()
            threading.Event().wait(0.0 if self._client.closed else _RETRY_S)
        kv = self._view.head()
        if kv == self._seen:
            return None
        self._seen = kv
        return None if kv is None else _leader(kv)

    def _watch_anew(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def _list(self) -> bool:
        """Take a list; whether it told anything new."""
        before, self._listed_at = self._view.in_order(), now()
        self._view.replace(self._client.get_prefix(self._prefix), known=self._view.revision)
        return before != self._view.in_order()


def _leader(kv: KeyValue) -> Leader:
    return Leader(kv.key, kv.value.decode("utf-8", "surrogateescape"), kv.create_revision, kv.lease_id)


def encode(value: str) -> bytes:
    """What a candidate's key says; TypeError if it is no text."""
    if not isinstance(value, str):
        raise TypeError(f"what a candidate proclaims is a text; got {value!r}")
    return value.encode("utf-8", "surrogateescape")
