"""Clients of an etcd in memory, and what they share: each call is made at once, in the thread of its caller."""

from __future__ import annotations

import itertools
import math
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

from lock.errors import EtcdError, EtcdUnavailable
from lock.etcd.client import Client
from lock.etcd.grpc_errors import CLOSED
from lock.etcd.requests import Requests
from lock.etcd.transport import Call, Unanswered
from lock.etcd.watches import Listener, Update, Watch, Watches
from lock.model import Lease
from lock.runtime.clock import now
from lock.testing.simulated_etcd import SimulatedEtcd

T = TypeVar("T")

_leases = itertools.count(1)


class Server(Watches):
    """What the clients of one etcd in memory call; and their watches, which one thread tells.

    Attributes:
        etcd: its state, for a caller that has the `lock`.
        is_silent: whether it neither answers nor tells.
    """

    def __init__(self) -> None:
        self.etcd = SimulatedEtcd()
        self.lock = threading.RLock()
        self.is_silent = False
        self._updates: queue.SimpleQueue[tuple[Watch, Update] | None] = queue.SimpleQueue()
        threading.Thread(target=self._tell, name="lock-watch", daemon=True).start()

    def answer(self, call: Call[T]) -> T:
        """Do what is asked, unless it is silent."""
        with self.lock:
            if self.is_silent:
                raise EtcdUnavailable("no etcd endpoint answered: the test has silenced etcd")
            self.etcd.expire(now())
            args, options = call.request
            return call.read(call.select(self.etcd)(*args, **options))  # type: ignore[arg-type]

    def silence(self, is_silent: bool) -> None:
        """Be silent, or answer again."""
        with self.lock:
            if is_silent != self.is_silent:
                self.is_silent = is_silent
                self._tell_all(EtcdUnavailable("the test has silenced etcd") if is_silent else [])

    def close(self) -> None:
        """End all watches, and their thread."""
        with self.lock:
            self._tell_all(EtcdUnavailable(CLOSED))
            self._updates.put(None)

    # The watches

    def add(self, prefix: str, listener: Listener, *, is_key: bool = False, known: int = 0) -> Watch:
        watch = Watch(prefix, listener, is_key)
        with self.lock:
            self.etcd.listeners[watch] = partial(self._tell_change, watch)
            if not self.is_silent:
                self._updates.put((watch, []))
        return watch

    def remove(self, watch: Watch) -> None:
        with self.lock:
            watch.is_wanted = False
            self.etcd.listeners.pop(watch, None)

    def check(self, *, is_done: bool = False) -> float:
        """Each watch stands at once."""
        return math.inf

    def _tell_change(self, watch: Watch) -> None:
        events = [event for event in self.etcd.history[-1] if watch.covers(event.kv.key)]
        if events and not self.is_silent:
            self._updates.put((watch, events))

    def _tell_all(self, update: Update) -> None:
        for watch in self.etcd.listeners:
            self._updates.put((watch, update))

    def _tell(self) -> None:
        for watch, update in iter(self._updates.get, None):
            if watch.is_wanted:
                watch.listener(update)


class MemoryClient(Client):
    """A client as `lock.connect` makes it, without an endpoint; made by `MemoryEtcd.connect`."""

    requests: Any

    def __init__(self, server: Server, timeout: float) -> None:
        # Not that of its base, which opens a channel for each endpoint.
        self.timeout, self.closed, self.observer, self.login = timeout, False, None, None
        self.endpoints, self.current, self._pid = [], 0, os.getpid()
        self.left_listeners, self.cluster_listeners, self.close_listeners = set(), set(), set()
        self.requests, self.watches, self._server = MemoryRequests(), server, server

    def call_here(self, call: Call[T], timeout: float | None = None, unanswered: Unanswered = None) -> T:
        return self.send(call, timeout, unanswered).result()

    def send(self, call: Call[T], timeout: float | None = None, unanswered: Unanswered = None) -> Future[T]:
        self.check_process()
        answer = Future[T]()
        try:
            if self.closed:
                raise EtcdUnavailable(CLOSED)
            answer.set_result(self._server.answer(call))
        except EtcdError as error:
            answer.set_exception(error)
        return answer

    def grant(self, ttl: int, *, timeout: float | None = None) -> Lease:
        lease = Lease(next(_leases), ttl)
        self.call(self.requests.grant(*lease, now()))
        return lease

    def keep_alive(self, lease_id: int, *, timeout: float | None = None) -> int:
        return int(self.call(self.requests.keep_alive(lease_id, now())))

    def revoke(self, lease_id: int, *, timeout: float | None = None) -> None:
        self.call(self.requests.revoke(lease_id))

    def status(self, *, timeout: float | None = None) -> str:
        return "in memory"


class MemoryRequests:
    """The same requests as `Requests`: each is a call of the simulated etcd's method of the same name."""

    created = Requests(b"").created

    def __getattr__(self, name: str) -> Callable[..., Call[Any]]:
        return lambda *args, **options: Call(attrgetter(name), (args, options), lambda answer: answer)
