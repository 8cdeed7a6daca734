"""The etcd of one test: sessions on it, and what can happen to them."""

from __future__ import annotations

from functools import partial
from typing import Any

from lock.core.cohort import Cohort
from lock.core.core import Core
from lock.runtime.clock import now
from lock.session.session import Session, _open
from lock.testing.client import MemoryClient, Server
from lock.testing.clock import Clock


class MemorySession(Session):
    """A session of an etcd in memory; made by `MemoryEtcd.session`, and used as any other."""

    def expire(self) -> None:
        """End its lease; returns when the session knows. While etcd is silent it raises `EtcdUnavailable`."""
        self.client.revoke(self.lease_id)
        self._engine.lease.renew()


class MemoryEtcd:
    """An etcd in memory, for one test; leaving ``with`` closes it, with its sessions. Any thread may use it.

    Attributes:
        clock: moves time.
    """

    def __init__(self) -> None:
        self.clock = Clock(self._look)
        self._server = Server()
        self._clients: list[MemoryClient] = []

    def session(self, *, ttl: int = 10, name: str | None = None) -> MemorySession:
        """A session that stands for a process; arguments and errors are those of `lock.Session`."""
        return MemorySession(self.connect(), ttl=ttl, name=name or f"session {len(self._clients)}")

    def connect(self, *_: Any, timeout: float = 2.0, **__: Any) -> MemoryClient:
        """A client, in the place of `lock.connect`; of its arguments all but `timeout` are ignored."""
        client = MemoryClient(self._server, timeout)
        self._clients.append(client)
        return client

    def list_keys(self, prefix: str = "") -> list[str]:
        """The keys below a prefix, the oldest first; those below ``NAME/`` hold or wait."""
        with self._server.lock:
            return [kv.key for kv in self._server.etcd.under(prefix)]

    def delete(self, key: str) -> None:
        """Delete a key by hand; returns when the session that holds or waits with it knows, unless etcd is silent."""
        with self._server.lock:
            if key not in self._server.etcd.keys:
                raise ValueError(f"there is no key {key!r} to delete; the keys are {self.list_keys()}")
            self._server.etcd.remove([key])
        if not self._server.is_silent:
            for session in self._sessions():
                ticket = session._engine.core.tickets.get(key)
                if ticket is not None:
                    session._engine.apply(session._engine.core.endings.key_deleted, ticket)

    def silence(self) -> None:
        """Answer no call until `resume`: each fails at once with `EtcdUnavailable`, as with no server at the port."""
        self._server.silence(True)

    def resume(self) -> None:
        """Answer again."""
        self._server.silence(False)

    def close(self) -> None:
        """Close all sessions and clients, and put the clock back."""
        self.resume()
        for session in self._sessions():
            session.close()
        for client in self._clients:
            client.close()
        self._server.close()
        self.clock._put_back()

    def __enter__(self) -> MemoryEtcd:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _sessions(self) -> list[Session]:
        return [session for session in list(_open) if session.client in self._clients]

    def _look(self) -> None:
        """Time was moved: leases end, or are renewed, and each wait looks at the clock."""
        with self._server.lock:
            self._server.etcd.expire(now())
        for session in self._sessions():
            session._engine.lease.renew()
            session._engine.apply(partial(_poll, session._engine.core))


def _poll(core: Core, now: float) -> None:
    """Do what is due, and wake each wait."""
    core.poll(now)
    core.outbox.changes += core.tickets.values()
    for cohort in core.observers:
        core.outbox.changes += cohort.waits if isinstance(cohort, Cohort) else ()
