"""One lease per process, and everything in this process that relies on it; when it is lost, all are told.

Error handling: a session that is lost stays lost. Make a new one.
"""

from __future__ import annotations

import atexit
import functools
import logging
import math
import os
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial

from lock.errors import LockCancelled, LockError
from lock.etcd.client import Client
from lock.runtime.clock import check_number, is_whole, now
from lock.session.engine import Engine

logger = logging.getLogger(__name__)

_open: set[Session] = set()


class Session:
    """A lease that all locks and threads of this process share. It is kept alive until it is closed.

    Args:
        client: made by `connect` in this very process.
        ttl: whole seconds after which etcd frees everything if this process dies; the server may grant more.
        name: shown to others as the owner of a lock; the program's host and process id if `None`.

    Attributes:
        client: as given.
        name: as given, or made.
        lease_id: the lease in etcd.
        ttl: seconds that the server granted.
        lost: set when the lease is gone or has to be taken for gone; never in a forked child.

    Raises:
        ValueError: `ttl` is not a positive whole number.
        TypeError: it is not a number, or `client` is none.
        EtcdUnavailable: no endpoint answered in time.
    """

    def __init__(self, client: Client, *, ttl: int = 10, name: str | None = None) -> None:
        if not isinstance(client, Client):
            raise TypeError(f"a Session takes the client that connect() makes; got {client!r}")
        check_number(ttl, is_whole, "ttl is a whole number of seconds, 1 or more")
        self.client = client
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._ending = threading.Lock()
        client.apart(self._open, ttl, undo=lambda _: self._close())

    def _open(self, ttl: int) -> None:
        self._engine = Engine(self.client, ttl, self.name)
        core = self._engine.core
        self.lease_id, self.ttl, self.lost = core.lease_id, core.ttl, self._engine.loss.event
        _open.add(self)
        self._engine.loss.add(partial(_open.discard, self))
        _close_with_child(os.getpid())

    def __repr__(self) -> str:
        state = "lost" if self.lost.is_set() else f"{self.remaining():.1f} s left"
        return f"<Session {self.name!r}, lease {self.lease_id:x}, {state}>"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self.client.forked():  # a child that leaves its parent's `with`, by sys.exit() for example
            self.close()

    def remaining(self) -> float:
        """Seconds for which the lease is surely still ours; 0.0 once it is lost."""
        self.client.check_process()
        return self._engine.core.remaining(now())

    def ensure(self) -> None:
        """Raise `SessionLost` if the lease is not surely ours, `ForkedError` in a child process."""
        if self.remaining() == 0.0:
            self.client.apart(self._engine.apply, self._engine.core.ensure)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` once when the session is over, also by `close`; at once if it is already.

        It is called after all holds and waits know. A session makes such calls one after the other, in another thread.
        """
        self.client.apart(self._engine.callbacks.call_when, self._engine.loss.add, callback)

    def cancel_waiters(self) -> None:
        """Cancel every wait, now and from now on, with `LockCancelled`; holds go on. The first step of a clean stop.

        It waits for nothing, so a signal handler may call it.
        """
        self.client.check_process()
        core = self._engine.core
        refusal = LockCancelled(f"session {self.name} is shutting down and waits for no lock any more")
        core.refusal = refusal
        self._engine.note(partial(core.refuse, refusal))

    def close(self) -> None:
        """Revoke the lease, which frees all that is held and queued; waiters get `SessionLost`. May be called again."""
        self.client.apart(self._close)

    def _close(self, until: float = math.inf) -> None:
        until = min(until, now() + self.client.timeout)
        if self._ending.acquire(timeout=self.client.timeout):  # a second call waits for the first one
            try:
                self._engine.close("was closed", until)
            finally:
                self._ending.release()
        _open.discard(self)


@functools.cache
def _close_with_child(pid: int) -> None:
    """A child of `multiprocessing` ends without `atexit`."""
    multiprocessing = sys.modules.get("multiprocessing")  # which every such child has imported
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, _close_all, exitpriority=-1)  # behind those of its own children


@atexit.register
def _close_all() -> None:
    """Free at once what the program left locked; in a forked child the sessions are not its own.

    If etcd is silent, all sessions of a client take one timeout together.
    """
    ends: dict[Client, float] = {}
    for session in list(_open):
        until = ends.setdefault(session.client, now() + session.client.timeout)
        try:
            session.client.apart(session._close, until)
        except LockError as error:
            logger.debug("session %s was not closed at exit: %s", session.name, error)
