"""What a lock needs of etcd: leases, conditional writes, lists and watches, with deadlines and typed results.

Error handling: every call ends before its deadline, with a result or with an `EtcdError`. Each write is conditional
on a key that no other client writes, so a call whose answer was lost can be repeated.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc

from lock.core.messages import Create, ReadKeys, TimeToLive
from lock.errors import EtcdUnavailable, LeaseNotFound
from lock.etcd.auth import Login
from lock.etcd.requests import Created, Requests
from lock.etcd.transport import Call, Observer, Tls, Transport, parse_endpoints, rpc
from lock.etcd.watches import Watches
from lock.model import KeyValue, Lease, LeaseStatus, Snapshot
from lock.runtime.clock import check_number
from lock.runtime.interrupts import require_threads, run_apart

Conditions = Created | Iterable[Created]


def connect(
    endpoints: str = "127.0.0.1:2379",
    *,
    timeout: float = 2.0,
    tls: Tls | None = None,
    user: str | None = None,
    password: str | None = None,
    namespace: str = "",
    observer: Observer | None = None,
) -> Client:
    """A client for one etcd cluster; nothing is sent before its first call.

    Args:
        endpoints: ``HOST:PORT``, or several separated by commas; when one does not answer, the next is asked.
        timeout: seconds one call may take over all endpoints, more than 0.
        tls: certificates, if etcd speaks TLS.
        user: together with `password`; an expired token is renewed by itself. Both go unused as long as etcd's
            authentication is not turned on, so that it can be while this runs.
        password: see `user`.
        namespace: put in front of every key as it is, so that several applications can share a cluster; end it with a
            slash. Messages and `hold.key` leave it out, as those of Go's ``namespace`` do; etcdctl shows the whole key.
        observer: called for each answer of etcd, also of a watch, with the call's name in etcd's API (``Txn``), the
            request and the response (protobuf messages), and the seconds since the request was sent. It runs in the
            thread that makes the call (for the main thread another one), so it should be quick.

    Raises:
        ValueError: no endpoint, one that is not ``HOST:PORT``, ``https://`` without `tls`, half a login, or a `timeout`
            that is not finite and more than 0; TypeError: it is not a number.
        RuntimeError: gevent has replaced Python's threads, which gRPC and this package need.
        OSError: a certificate file cannot be read.
    """
    require_threads()
    if not isinstance(endpoints, str):
        raise TypeError(f"endpoints is one text, with addresses separated by commas; got {endpoints!r}")
    check_number(timeout, lambda s: 0 < s < math.inf, "timeout is seconds, a finite number of more than 0, such as 2.0")
    if (user is None) != (password is None):
        raise ValueError("an etcd user and its password are given together or not at all")
    if tls is None and "https://" in endpoints:
        raise ValueError("an https:// endpoint needs tls=Tls(ca_cert=...): it would be spoken to in plain text")
    login = Login(user, password) if user is not None and password is not None else None
    addresses = parse_endpoints(endpoints)
    options: Any = {"namespace": namespace, "timeout": timeout, "tls": tls, "login": login, "observer": observer}
    client: Client = run_apart(Client, addresses, undo=Client.close, **options)
    return client


class Client(Transport):
    """One etcd cluster, shared by all threads of one process; made by `connect`.

    Every method raises `EtcdUnavailable` if no endpoint answers in time, `EtcdDenied` if etcd refuses the user,
    and `ForkedError` in a child process. `timeout` is in seconds, and the client's own if it is `None`.
    """

    def __init__(self, addresses: list[str], *, namespace: str, **options: Any) -> None:
        super().__init__(addresses, **options)
        self.requests = Requests(namespace.encode())
        self.watches = Watches(self, self.requests)

    def __repr__(self) -> str:
        addresses = ",".join(endpoint.address for endpoint in self.endpoints)
        return f"<Client of etcd at {addresses}{', closed' if self.closed else ''}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def grant(self, ttl: int, *, timeout: float | None = None) -> Lease:
        """A new lease of at least `ttl` seconds."""
        request = rpc.LeaseGrantRequest(TTL=ttl)
        call = Call(lambda to: to.lease.LeaseGrant, request, lambda response: Lease(response.ID, response.TTL))
        return self.call(call, timeout)

    def keep_alive(self, lease_id: int, *, timeout: float | None = None) -> int:
        """Renew a lease once: the seconds it lives from when this was sent, or 0 when it is gone."""
        request = rpc.LeaseKeepAliveRequest(ID=lease_id)
        call = Call(lambda to: _first_answer(to.lease.LeaseKeepAlive), request, lambda lease: max(int(lease.TTL), 0))
        return self.call(call, timeout)

    def time_to_live(self, lease_id: int, *, timeout: float | None = None) -> LeaseStatus:
        """What is left of a lease; asking does not renew it."""
        return self.call(self.requests.time_to_live(TimeToLive(lease_id)), timeout)

    def revoke(self, lease_id: int, *, timeout: float | None = None) -> None:
        """End a lease and delete its keys; fine if it is gone already."""
        with contextlib.suppress(LeaseNotFound):
            request = rpc.LeaseRevokeRequest(ID=lease_id)
            self.call(Call(lambda to: to.lease.LeaseRevoke, request, lambda response: None), timeout)

    def create(self, key: str, value: bytes, lease_id: int, *, timeout: float | None = None) -> KeyValue | None:
        """Write `key` unless it exists; the key as it stands now. Raises LeaseNotFound if the lease is gone."""
        return self.call(self.requests.create_key(Create(key, value, lease_id)), timeout).kv

    def get_prefix(self, prefix: str, *, limit: int = 0, timeout: float | None = None) -> Snapshot:
        """The keys under `prefix`, by a linearizable read: all, or at most `limit`, the first by name."""
        return self.call(self.requests.get_prefix(prefix, limit=limit), timeout)

    def get(self, key: str, *, timeout: float | None = None) -> KeyValue | None:
        """A key, by a linearizable read; `None` if it does not exist."""
        return self.call(self.requests.read_keys(ReadKeys({key: None}, 0)), timeout).kvs.get(key)

    def put(
        self, key: str, value: bytes | str, *, if_: Conditions = (), lease_id: int = 0, timeout: float | None = None
    ) -> bool:
        """Write a key if each condition holds at that very moment; whether it was written.

        >>> client.put("flash-sale/price", "7", if_=hold.is_owner())

        `if_` is a condition, or several: that of `Hold.is_owner`, those of `MultiHold`. A write whose answer is lost
        is repeated at another endpoint, so another client's later write may be overwritten, unless a condition prevents
        that. `EtcdUnavailable`: it may have been written.
        """
        return self.call(self.requests.put_if(key, _bytes(value), lease_id, _conditions(if_)), timeout)

    def delete(self, key: str, *, if_: Conditions = (), timeout: float | None = None) -> bool:
        """Delete a key if each condition holds, see `put`; whether they held. Fine if there is no such key."""
        return self.call(self.requests.delete_if(key, _conditions(if_)), timeout)

    def status(self, *, timeout: float | None = None) -> str:
        """The version of the etcd server that answers."""
        request = rpc.StatusRequest()
        return self.call(Call(lambda to: to.maintenance.Status, request, lambda status: str(status.version)), timeout)


def _conditions(if_: Conditions) -> list[Created]:
    conditions = list(if_) if isinstance(if_, Iterable) and not isinstance(if_, Created) else [if_]
    if mistaken := [each for each in conditions if not isinstance(each, Created)]:
        raise TypeError(f"if_ takes conditions, such as hold.is_owner(); got {mistaken[0]!r}")
    return conditions


def _bytes(value: bytes | str) -> bytes:
    if not isinstance(value, bytes | str):
        raise TypeError(f"a value is bytes, or a text; got {value!r}")
    return value.encode() if isinstance(value, str) else value


def _first_answer(method: Callable[..., Any]) -> Callable[..., Any]:
    """A call whose stream has one answer: a renewal every few seconds is not worth a stream to look after.

    gRPC's object for a call takes a lock when it is deleted. If the interpreter deletes it as it ends, one of gRPC's
    own threads may have been stopped with that lock, and the program hangs. So it is let go as soon as the stream is
    over, also if it is the error: its traceback refers to it.
    """

    def call(request: Any, **options: Any) -> Any:
        over = threading.Event()
        stream = method(_one_request(request, over), **options)
        try:
            return next(stream)
        except StopIteration:
            raise EtcdUnavailable("etcd ended the stream without an answer") from None
        except grpc.RpcError as error:
            raise error.with_traceback(None) from None
        finally:
            over.set()
            stream.cancel()
            del stream

    return call


def _one_request(request: Any, over: threading.Event) -> Iterator[Any]:
    """All that is said on a stream, which is `over` when that is set."""
    yield request
    over.wait()  # returning would half-close the stream, which etcd's gRPC proxy takes for its end
