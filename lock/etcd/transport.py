"""How a call reaches etcd: endpoints, deadlines, authentication.

This module alone imports etcd3, and only its stubs and messages: etcd3's `Lock` enters ``with`` unlocked on a timeout,
its `Watcher` spins while the server is away, and not every call of its client has a deadline.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Generator
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import grpc

from lock.errors import EtcdError, EtcdUnavailable, ForkedError
from lock.etcd import protobuf_compat
from lock.etcd.auth import Login
from lock.etcd.grpc_errors import CLOSED, anybody_may, out_of_reach, refused, token_expired, translate, words
from lock.runtime.clock import now
from lock.runtime.interrupts import run_apart

protobuf_compat.install()

from etcd3 import etcdrpc as rpc  # noqa: E402  (the bridge has to stand before the first import of etcd3)

__all__ = [
    "Call", "Endpoint", "Observer", "Tls", "Transport", "Unanswered", "notify", "parse_endpoints", "rpc", "run_steps",
]  # fmt: skip

logger = logging.getLogger(__name__)

T = TypeVar("T")
Observer = Callable[[str, Any, Any, float], None]
"""See `lock.connect`."""
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
    ("grpc.dns_min_time_between_resolutions_ms", 500),  # names of pods that were replaced have new addresses at once
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_HAS_LEADER = ("hasleader", "true")  # a member cut off from its quorum then says so, instead of staying silent
_WITHOUT_TOKEN = (_HAS_LEADER,)
_RUN = methodcaller("run")


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
        """The files' contents for gRPC; OSError if one cannot be read, ValueError for half a pair."""
        if (self.cert is None) != (self.key is None):
            raise ValueError("a client certificate and its key are given together or not at all")
        ca_cert, cert, key = (Path(path).read_bytes() if path else None for path in (self.ca_cert, self.cert, self.key))
        return grpc.ssl_channel_credentials(root_certificates=ca_cert, private_key=key, certificate_chain=cert)


class Endpoint:
    """One address of the cluster, with its channel and stubs."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        connect = partial(grpc.secure_channel, credentials=credentials) if credentials else grpc.insecure_channel
        self.channel = connect(address, options=_CHANNEL_OPTIONS)
        self.kv = rpc.KVStub(self.channel)
        self.lease = rpc.LeaseStub(self.channel)
        self.watch = rpc.WatchStub(self.channel)
        self.auth = rpc.AuthStub(self.channel)
        self.maintenance = rpc.MaintenanceStub(self.channel)


@dataclass(slots=True)
class Call(Generic[T]):
    """A request: the method of an endpoint that takes it, and what its response means."""

    select: Callable[[Endpoint], Callable[..., Any]]
    request: Any
    read: Callable[[Any], T]


class _Step(NamedTuple):
    """One request to one endpoint, to `run` or to `send`: its method with its arguments."""

    run: partial[Any]

    def send(self) -> Any:
        return self.run.func.future(*self.run.args, **self.run.keywords)  # type: ignore[attr-defined]


class _LogIn(NamedTuple):
    """The token of an endpoint."""

    login: Login
    endpoint: Endpoint
    deadline: float

    def run(self) -> str:
        try:
            return self.send().result(max(self.deadline - now(), 0.0))
        except futures.TimeoutError:  # another class than Python's before 3.11
            raise TimeoutError("logging in took too long") from None

    def send(self) -> Future[str]:
        return self.login.token(partial(_authenticate, self.endpoint, self.login, self.deadline))


class Transport:
    """Calls to one cluster, from all threads of one process.

    Attributes:
        timeout: seconds one call may take.
        closed: whether it was closed, so that no call will ever be answered again.
    """

    def __init__(
        self, addresses: list[str], *, timeout: float, tls: Tls | None, login: Login | None, observer: Observer | None
    ) -> None:
        self.timeout = timeout
        self.closed = False
        self.observer = observer
        self.login = login
        self.endpoints = [Endpoint(address, tls.credentials() if tls else None) for address in addresses]
        self.current = 0  # the place of the endpoint that is asked first
        # Called with an endpoint that is left, when another cluster answers, when it is closed; quick, and never raise.
        self.left_listeners: set[Callable[[Endpoint], object]] = set()
        self.cluster_listeners: set[Callable[[], object]] = set()
        self.close_listeners: set[Callable[[], object]] = set()
        self._cluster_id: int | None = None
        self._pid = os.getpid()
        self._fair_share = timeout / len(addresses) / 2  # in less, an endpoint that is merely slow may not answer
        self._lock = threading.Lock()

    def call(self, call: Call[T], timeout: float | None = None, unanswered: Unanswered = None) -> T:
        """The answer to one of the client's `requests`; blocks.

        One endpoint after the other is asked, each for its share of the time that is left. One that does not answer is
        left by all calls and watches, unless it had very little time. Whatever is sent here has to be safe to send
        twice: `unanswered` is called for each endpoint that did not answer, for it may have done it, or may do it yet.
        """
        answer: T = self.apart(self.call_here, call, timeout, unanswered)
        return answer

    def call_here(self, call: Call[T], timeout: float | None = None, unanswered: Unanswered = None) -> T:
        """Do the same as `call`, in the process that made this client, and not in the main thread."""
        deadline = now() + (self.timeout if timeout is None else timeout)
        return run_steps(self._attempts(call, deadline, unanswered), _RUN)

    def send(self, call: Call[T], timeout: float | None = None, unanswered: Unanswered = None) -> Future[T]:
        """Do the same as `call`, and return at once; the future's callbacks run in a thread of gRPC."""
        self.check_process()
        deadline = now() + (self.timeout if timeout is None else timeout)
        attempts, answer = self._attempts(call, deadline, unanswered), Future[T]()

        def resume(outcome: Callable[[], Any]) -> None:
            try:
                step = _advance(attempts, outcome)
            except StopIteration as done:
                end = partial(answer.set_result, done.value)
            except EtcdError as error:
                end = partial(answer.set_exception, error)
            except BaseException as error:  # of a machine that is out of threads
                logger.exception("a call of etcd has failed")
                end = partial(answer.set_exception, EtcdUnavailable(f"a call of etcd has failed: {error!r}"))
            else:
                try:
                    step.send().add_done_callback(lambda done: resume(done.result))
                except Exception as error:  # of a channel that is closed
                    resume(partial(_fail, error))
                return
            end()  # here, where no exception is being handled: callbacks may look for one

        resume(lambda: None)
        return answer

    def apart(self, call: Callable[..., T], *args: Any, **options: Any) -> T:
        """Do the same as `run_apart`, in the process that made this client; raises `ForkedError` in others."""
        self.check_process()
        return run_apart(call, *args, **options)  # type: ignore[no-any-return]

    def check_process(self) -> None:
        """Raise `ForkedError` anywhere but in the process that made this client."""
        if os.getpid() != self._pid:
            raise ForkedError(f"this etcd client belongs to process {self._pid}: call connect() after the fork")

    def forked(self) -> bool:
        return os.getpid() != self._pid

    def close(self) -> None:
        """Close the connections; close the sessions first, or their leases are left to expire."""
        self.closed = True
        if not self.forked():  # closing gRPC's objects in a forked child can hang
            run_apart(self._close)

    def _close(self) -> None:
        for listener in list(self.close_listeners):
            listener()
        for endpoint in self.endpoints:
            endpoint.channel.close()

    def log_in(self, endpoint: Endpoint) -> str:
        """The token to show this endpoint, "" if none is needed; blocks. TimeoutError, or an error of gRPC."""
        if self.login is None:
            return ""
        known = self.login.known
        return _LogIn(self.login, endpoint, now() + self.timeout).run() if known is None else known

    def leave(self, endpoint: Endpoint) -> None:
        """It does not answer: ask the next one from now on."""
        with self._lock:
            position = self.endpoints.index(endpoint)
            following = (position + 1) % len(self.endpoints)
            if self.current != position or position == following:  # another thread has left it, or it is the only one
                return
            self.current = following
        for listener in list(self.left_listeners):
            listener(endpoint)

    @staticmethod
    def metadata(token: str | None) -> tuple[tuple[str, str], ...]:
        return (_HAS_LEADER, ("token", token)) if token else _WITHOUT_TOKEN

    def _attempts(self, call: Call[T], deadline: float, unanswered: Unanswered) -> Generator[_Step | _LogIn, Any, T]:
        """Ask the endpoints: yields what is to be sent, is sent the responses, and returns the answer."""
        failures = []
        first, count = self.current, len(self.endpoints)
        for tried in range(count):
            endpoint = self.endpoints[(first + tried) % count]
            share = (deadline - now()) / (count - tried)
            until = now() + share
            try:
                return call.read((yield from self._ask(endpoint, call, until)))
            except grpc.RpcError as error:
                if unanswered is not None and not refused(error):
                    unanswered()
                if not out_of_reach(error):
                    raise translate(error) from error
                failures.append(f"{endpoint.address}: {words(error)}")
            except (EtcdUnavailable, TimeoutError) as error:
                failures.append(f"{endpoint.address}: {error}")
            except (ValueError, grpc.FutureCancelledError) as error:  # gRPC's words for a closed channel
                raise EtcdUnavailable(CLOSED) from error
            if share >= self._fair_share:
                self.leave(endpoint)
        raise EtcdUnavailable(f"no etcd endpoint answered ({'; '.join(failures)}): is etcd running there?")

    def _ask(self, endpoint: Endpoint, call: Call[Any], until: float) -> Generator[_Step | _LogIn, Any, Any]:
        login = self.login
        token = "" if login is None else login.known
        for is_last in (False, True):
            if login is not None and token is None:
                token = yield _LogIn(login, endpoint, until)
            sent = now()
            options = {"timeout": max(until - sent, 0.0), "metadata": self.metadata(token) if token else _WITHOUT_TOKEN}
            try:
                response = yield _Step(partial(call.select(endpoint), call.request, **options))
                break
            except grpc.RpcError as error:
                if login is None or is_last or not token_expired(error):
                    raise
                login.forget(token)
                token = None
        if self.observer is not None:
            notify(self.observer, call.request, response, now() - sent)
        if response.header.cluster_id != self._cluster_id:
            self._meet_cluster(response.header.cluster_id)
        return response

    def _meet_cluster(self, cluster_id: int) -> None:
        known, self._cluster_id = self._cluster_id, cluster_id
        if known is not None:
            logger.warning("etcd cluster %x answers, where it was %x: restored from a backup?", cluster_id, known)
            for listener in list(self.cluster_listeners):
                listener()


def run_steps(steps: Generator[Any, Any, T], run: Callable[[Any], Any]) -> T:
    """Run what is yielded, one after the other, and send or throw back what comes of it; the result."""
    try:
        step = next(steps)
        while True:
            try:
                result = run(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as done:
        answer: T = done.value
        return answer


def _advance(attempts: Generator[Any, Any, Any], outcome: Callable[[], Any]) -> Any:
    """The next step, after what the last one has returned or raised."""
    try:
        response = outcome()
    except Exception as error:
        return attempts.throw(error)
    return attempts.send(response)


def _fail(error: Exception) -> NoReturn:
    raise error


def notify(observer: Observer, request: Any, response: Any, seconds: float) -> None:
    """Tell the observer of an answer. What it raises is logged: it ends neither the call nor the thread."""
    name = request.DESCRIPTOR.name.removesuffix("Request")
    try:
        observer(name, request, response, seconds)
    except BaseException:  # SystemExit as well
        logger.exception("an observer of etcd's answers failed at %s", name)


def _authenticate(endpoint: Endpoint, login: Login, deadline: float, token: Future[str]) -> None:
    """Ask an endpoint for a token, and set it, or the error; "" if etcd wants none."""
    request = rpc.AuthenticateRequest(name=login.user, password=login.password)

    def answer(done: Any) -> None:
        try:
            token.set_result(str(done.result().token))
        except grpc.RpcError as error:
            token.set_result("") if anybody_may(error) else token.set_exception(error)
        except BaseException as error:
            token.set_exception(error)

    try:
        endpoint.auth.Authenticate.future(request, timeout=max(deadline - now(), 0.0)).add_done_callback(answer)
    except BaseException as error:  # a closed channel, or a machine that is out of threads: others wait for the token
        token.set_exception(error)
