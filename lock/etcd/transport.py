"""How a call reaches etcd: endpoints, deadlines, authentication.

This module alone imports etcd3, and only its stubs and messages: etcd3's `Lock` enters ``with`` unlocked on a timeout,
its `Watcher` spins while the server is away, and not every call of its client has a deadline.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import grpc

from lock.errors import EtcdUnavailable, ForkedError
from lock.etcd import protobuf_compat
from lock.etcd.auth import Login
from lock.etcd.grpc_errors import CLOSED, anybody_may, out_of_reach, refused, token_expired, translate, words
from lock.etcd.stream import Observer, Watch, tell
from lock.model import KeyValue
from lock.runtime.clock import now
from lock.runtime.execution import Execution

protobuf_compat.install()

from etcd3 import etcdrpc as rpc  # noqa: E402  (the bridge has to stand before the first import of etcd3)

__all__ = ["Call", "Endpoint", "Tls", "Transport", "Unanswered", "parse_endpoints", "rpc"]

T = TypeVar("T")
Unanswered = Callable[[], object] | None

_CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # what a connection may take to be made, not a pause
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.keepalive_time_ms", 10_000),  # etcd closes connections that ping more often than every 5 s
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),  # else a minute, whatever the line above says
    ("grpc.http2.max_pings_without_data", 0),  # without limit: a watch may be silent for long
    ("grpc.max_receive_message_length", -1),  # the list of a very long queue
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_HAS_LEADER = ("hasleader", "true")  # a member cut off from its quorum then says so, instead of staying silent


def parse_endpoints(text: str) -> list[str]:
    """``HOST:PORT`` of each endpoint in a comma-separated list, else ValueError; a scheme in front is ignored."""
    addresses = [part.strip().rpartition("://")[2].rstrip("/") for part in text.split(",") if part.strip()]
    if not addresses:
        raise ValueError("no etcd endpoint given: name at least one, such as 127.0.0.1:2379")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:  # gRPC would wrap it around
            raise ValueError(f"etcd endpoint {address!r} is not HOST:PORT, such as 127.0.0.1:2379")
    return addresses


@dataclass(frozen=True)
class Tls:
    """Paths of PEM files.

    They are read once, by `connect`: for certificates that were renewed since, make a new client, before the old ones
    expire.

    Args:
        ca_cert: the authority that signed the server.
        cert: the client's own certificate, together with `key`.
        key: see `cert`.
    """

    ca_cert: str
    cert: str | None = None
    key: str | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """The files' contents for gRPC; OSError where one cannot be read, ValueError for half a pair."""
        if (self.cert is None) != (self.key is None):
            raise ValueError("a client certificate and its key are given together or not at all")
        ca_cert, cert, key = (Path(path).read_bytes() if path else None for path in (self.ca_cert, self.cert, self.key))
        return grpc.ssl_channel_credentials(root_certificates=ca_cert, private_key=key, certificate_chain=cert)


class Endpoint:
    """One address of the cluster, with its channel and stubs, and the watches that were opened there."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        self.channel = (
            grpc.secure_channel(address, credentials, options=_CHANNEL_OPTIONS)
            if credentials
            else grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
        )
        self.kv = rpc.KVStub(self.channel)
        self.lease = rpc.LeaseStub(self.channel)
        self.watch = rpc.WatchStub(self.channel)
        self.auth = rpc.AuthStub(self.channel)
        self.maintenance = rpc.MaintenanceStub(self.channel)
        self.watches: weakref.WeakSet[Watch] = weakref.WeakSet()


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request: the method of an endpoint that takes it, and what its response means."""

    select: Callable[[Endpoint], Callable[..., Any]]
    request: Any
    read: Callable[[Any], T]


class Transport:
    """Calls to one cluster, from all threads of one process.

    Attributes:
        timeout: seconds one call may take.
        closed: whether it was closed, so that no call will ever be answered again.
    """

    def __init__(
        self,
        addresses: list[str],
        *,
        timeout: float,
        tls: Tls | None = None,
        login: Login | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.timeout = timeout
        self.closed = False
        self._observer = observer
        self._pid = os.getpid()
        self._login = login
        self.endpoints = [Endpoint(address, tls.credentials() if tls else None) for address in addresses]
        self._current = 0
        self._fair_share = timeout / len(addresses) / 2  # in less, an endpoint that is merely slow may not answer
        self._lock = threading.Lock()

    async def ask(
        self, execution: Execution, call: Call[T], timeout: float | None = None, unanswered: Unanswered = None
    ) -> T:
        """For the steps of a recipe: ask one endpoint after the other, each for its share of the time that is left.

        One that does not answer is left by all calls and watches, unless it had very little time.

        Whatever is sent here has to be safe to send twice: an endpoint that did not answer may have done it, or may do
        it yet. `unanswered` is called for each.
        """
        self.check_process()
        deadline = now() + (self.timeout if timeout is None else timeout)
        return call.read(await execution.run(partial(self._call, execution, call, deadline, unanswered)))

    def open(self, request: Any, decode: Callable[[Any], KeyValue]) -> Watch:
        """For `Client`: a watch, which fails while it is read, not here, also when its endpoint is left."""
        self.check_process()

        def start(requests: Iterator[Any]) -> Any:
            return endpoint.watch.Watch(requests, metadata=self._metadata(self._token(endpoint, now() + self.timeout)))

        with self._lock:
            position = self._current
            endpoint = self.endpoints[position]
            watch = Watch(start, request, decode, partial(self._watch_failed, position), self._observer)
            endpoint.watches.add(watch)
        return watch

    def check_process(self) -> None:
        """Raise `ForkedError` anywhere but in the process that made this client."""
        if self.forked():
            raise ForkedError(f"this etcd client belongs to process {self._pid}: call connect() after the fork")

    def forked(self) -> bool:
        """Whether this is another process than the one that made this client."""
        return os.getpid() != self._pid

    def close(self) -> None:
        """Close the connections; close the sessions first, or their leases are left to expire."""
        self.closed = True
        if not self.forked():  # closing gRPC's objects in a forked child can hang
            for endpoint in self.endpoints:
                endpoint.channel.close()

    async def _call(self, execution: Execution, call: Call[Any], deadline: float, unanswered: Unanswered) -> Any:
        failures = []
        first, count = self._current, len(self.endpoints)
        for asked in range(count):
            position = (first + asked) % count
            endpoint = self.endpoints[position]
            share = (deadline - now()) / (count - asked)
            try:
                return await self._ask(execution, endpoint, call, now() + share)
            except grpc.RpcError as error:
                if unanswered is not None and not refused(error):
                    unanswered()
                if not out_of_reach(error):
                    raise translate(error) from error
                failures.append(f"{endpoint.address}: {words(error)}")
            except (EtcdUnavailable, TimeoutError) as error:
                failures.append(f"{endpoint.address}: {error}")
            except ValueError as error:  # gRPC's word for a closed channel
                raise EtcdUnavailable(CLOSED) from error
            if share >= self._fair_share:
                self._leave(position)
        raise EtcdUnavailable(f"no etcd endpoint answered ({'; '.join(failures)}): is etcd running there?")

    async def _ask(self, execution: Execution, endpoint: Endpoint, call: Call[Any], deadline: float) -> Any:
        token = await self._get_token(execution, endpoint, deadline)
        try:
            return await self._send(execution, endpoint, call, token, deadline)
        except grpc.RpcError as error:
            if self._login is None or not token_expired(error):
                raise
        self._login.forget(token)
        token = await self._get_token(execution, endpoint, deadline)
        return await self._send(execution, endpoint, call, token, deadline)

    async def _send(
        self, execution: Execution, endpoint: Endpoint, call: Call[Any], token: str, deadline: float
    ) -> Any:
        sent, method = now(), call.select(endpoint)
        timeout, metadata = max(deadline - sent, 0.0), self._metadata(token)
        response = await execution.send(method, call.request, timeout=timeout, metadata=metadata)
        tell(self._observer, call.request, response, now() - sent)
        return response

    async def _get_token(self, execution: Execution, endpoint: Endpoint, deadline: float) -> str:
        known = "" if self._login is None else self._login.known
        return await execution.call(partial(self._token, endpoint, deadline)) if known is None else known

    def _token(self, endpoint: Endpoint, deadline: float) -> str:
        """What to show etcd; "" where no login is needed."""
        return "" if self._login is None else self._login.token(partial(_authenticate, endpoint, self._login), deadline)

    @staticmethod
    def _metadata(token: str) -> tuple[tuple[str, str], ...]:
        return (_HAS_LEADER, ("token", token)) if token else (_HAS_LEADER,)

    def _watch_failed(self, position: int, elsewhere: bool) -> None:
        if elsewhere:
            self._leave(position)
        if self._login is not None:  # of a watch with a token that has expired etcd says but "permission denied"
            self._login.forget()

    def _leave(self, position: int) -> None:
        following = (position + 1) % len(self.endpoints)
        with self._lock:
            if self._current != position or position == following:  # another thread has left it, or there is no other
                return
            self._current = following
            endpoint = self.endpoints[position]
            watches = list(endpoint.watches)
        for watch in watches:
            watch.close(EtcdUnavailable(f"{endpoint.address} did not answer: another endpoint is asked"))


def _authenticate(endpoint: Endpoint, login: Login, timeout: float) -> str:
    request = rpc.AuthenticateRequest(name=login.user, password=login.password)
    try:
        return str(endpoint.auth.Authenticate(request, timeout=timeout).token)
    except grpc.RpcError as error:
        if not anybody_may(error):
            raise
        return ""
