"""What a lock needs of etcd: leases, conditional writes, lists and watches, with deadlines and typed results.

Error handling: every call ends before its deadline, with a result or with an `EtcdError`. Each write is conditional
on a key that nobody else writes, so a call whose answer was lost can be repeated.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lock.errors import LeaseNotFound
from lock.etcd.auth import Login
from lock.etcd.observer import Observer
from lock.etcd.stream import Watch, first_answer
from lock.etcd.transport import Tls, Transport, parse_endpoints, rpc
from lock.model import KeyValue, Lease, LeaseStatus, Snapshot
from lock.runtime.clock import check_number
from lock.runtime.interrupts import require_threads


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
        tls: certificates, where etcd speaks TLS.
        user: together with `password`; an expired token is renewed by itself. Both go unused as long as etcd's
            authentication is not turned on, so that it can be while this runs.
        password: see `user`.
        namespace: put in front of every key as it is, so that several applications can share a cluster; end it with a
            slash. Messages and `hold.key` leave it out, as those of Go's ``namespace`` do; etcdctl shows the whole key.
        observer: told of every answer of etcd, for tracing and counting; see `lock.etcd.observer.Observer`.

    Raises:
        ValueError: no endpoint, one that is not ``HOST:PORT``, ``https://`` without `tls`, half a login, or a `timeout`
            that is not finite and more than 0; TypeError: it is no number.
        RuntimeError: gevent has replaced Python's threads, which gRPC and this package need.
        OSError: a certificate file cannot be read.
    """
    require_threads()
    check_number(timeout, lambda s: 0 < s < math.inf, "timeout is seconds, a finite number of more than 0, such as 2.0")
    if (user is None) != (password is None):
        raise ValueError("an etcd user and its password are given together or not at all")
    if tls is None and "https://" in endpoints:
        raise ValueError("an https:// endpoint needs tls=Tls(ca_cert=...): it would be spoken to in plain text")
    login = Login(user, password) if user is not None and password is not None else None
    transport = Transport(parse_endpoints(endpoints), timeout=timeout, tls=tls, login=login, observer=observer)
    return Client(transport, namespace)


class Created(NamedTuple):
    """That a key was created at `revision` and not since: for a lock's key, that its owner still holds it.

    `etcd3.Etcd3Client.transaction` takes it in `compare`; for a raw ``TxnRequest`` there is `build_message`.
    """

    key: bytes
    revision: int

    def build_message(self) -> Any:
        """An ``etcdserverpb.Compare``."""
        return rpc.Compare(
            key=self.key, target=rpc.Compare.CREATE, result=rpc.Compare.EQUAL, create_revision=self.revision
        )


class Client:
    """One etcd cluster, shared by all threads of one process; made by `connect`.

    Every method raises `EtcdUnavailable` where no endpoint answers in time, `EtcdDenied` where etcd refuses the user,
    and `ForkedError` in a child process. `timeout` is in seconds, and the client's own where it is None.
    """

    def __init__(self, transport: Transport, namespace: str = "") -> None:
        self._transport = transport
        self._namespace = namespace.encode()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; close the sessions first, or their leases are left to expire."""
        self._transport.close()

    def check_process(self) -> None:
        """Raise `ForkedError` anywhere but in the process that made this client."""
        self._transport.check_process()

    def closed(self) -> bool:
        """Whether it was closed, so that no call will ever be answered again."""
        return self._transport.closed

    def forked(self) -> bool:
        """Whether this is another process than the one that made this client."""
        return self._transport.forked()

    @property
    def timeout(self) -> float:
        """Seconds one call may take."""
        return self._transport.timeout

    # Leases

    def grant(self, ttl: int, *, timeout: float | None = None) -> Lease:
        """A new lease of at least `ttl` seconds."""
        response = self._transport.call(lambda to: to.lease.LeaseGrant, rpc.LeaseGrantRequest(TTL=ttl), timeout)
        return Lease(response.ID, response.TTL)

    def keep_alive(self, lease_id: int, *, timeout: float | None = None) -> int:
        """Renew a lease once: the seconds it lives from when this was sent, or 0 when it is gone."""
        request = rpc.LeaseKeepAliveRequest(ID=lease_id)
        return max(int(self._transport.call(lambda to: first_answer(to.lease.LeaseKeepAlive), request, timeout).TTL), 0)

    def time_to_live(self, lease_id: int, *, timeout: float | None = None) -> LeaseStatus:
        """What is left of a lease; asking does not renew it."""
        request = rpc.LeaseTimeToLiveRequest(ID=lease_id)
        response = self._transport.call(lambda to: to.lease.LeaseTimeToLive, request, timeout)
        return LeaseStatus(response.TTL, response.grantedTTL)

    def lease_keys(self, lease_id: int, *, timeout: float | None = None) -> list[str]:
        """The keys that are bound to a lease; none where it is gone."""
        request = rpc.LeaseTimeToLiveRequest(ID=lease_id, keys=True)
        keys = self._transport.call(lambda to: to.lease.LeaseTimeToLive, request, timeout).keys
        own = [key for key in keys if key.startswith(self._namespace)]
        return [key[len(self._namespace) :].decode("utf-8", "surrogateescape") for key in own]

    def revoke(self, lease_id: int, *, timeout: float | None = None) -> None:
        """End a lease and delete its keys; fine where it is gone already."""
        with contextlib.suppress(LeaseNotFound):
            self._transport.call(lambda to: to.lease.LeaseRevoke, rpc.LeaseRevokeRequest(ID=lease_id), timeout)

    # Keys

    def create(
        self,
        key: str,
        value: bytes,
        lease_id: int,
        *,
        timeout: float | None = None,
        unanswered: Callable[[], object] | None = None,
    ) -> KeyValue | None:
        """Write `key` unless it exists; the key as it stands now.

        `unanswered` is called for each endpoint that was asked and did not answer: it may do it later, and write a key
        that was deleted in the meantime.

        Raises:
            LeaseNotFound: the lease is gone.
        """
        absent = self.created(key, 0).build_message()
        return self._put_if(absent, KeyValue(key, value, 0, 0, lease_id), timeout, unanswered)

    def create_alone(
        self,
        prefix: str,
        key: str,
        value: bytes,
        lease_id: int,
        *,
        timeout: float | None = None,
        unanswered: Callable[[], object] | None = None,
    ) -> KeyValue | None:
        """Write `key` if nothing stands under `prefix`, in one atomic step; None if something does.

        For `unanswered` see `create`.

        Raises:
            LeaseNotFound: the lease is gone.
        """
        # A comparison over a range has to hold for each key in it, and holds for an empty one (etcd 3.3 and later).
        start, end = self._range(prefix)
        empty = rpc.Compare(
            key=start, range_end=end, target=rpc.Compare.CREATE, result=rpc.Compare.EQUAL, create_revision=0
        )
        return self._put_if(empty, KeyValue(key, value, 0, 0, lease_id), timeout, unanswered)

    def replace(self, kv: KeyValue, value: bytes, *, timeout: float | None = None) -> KeyValue | None:
        """Give a key another value if it is still as `kv` says; the key as it stands now, or None if it is gone.

        A repetition changes nothing, for the first one has changed the mod revision.
        """
        unchanged = rpc.Compare(
            key=self._encode(kv.key), target=rpc.Compare.MOD, result=rpc.Compare.EQUAL, mod_revision=kv.mod_revision
        )
        return self._put_if(unchanged, kv._replace(value=value), timeout)

    def delete(
        self,
        key: str,
        create_revision: int | None,
        *,
        timeout: float | None = None,
        unanswered: Callable[[], object] | None = None,
    ) -> bool:
        """Delete `key` if it was created at `create_revision` (at any, if None); whether it was there.

        Without the comparison, a late repetition of an old release could free a newer hold (etcd issue 22082).
        `unanswered` is called for each endpoint that was asked before and did not answer: it may have deleted it.
        """
        return self.delete_several([(key, create_revision)], timeout=timeout, unanswered=unanswered)[0]

    def delete_several(
        self,
        keys: Sequence[tuple[str, int | None]],
        *,
        timeout: float | None = None,
        unanswered: Callable[[], object] | None = None,
    ) -> list[bool]:
        """What `delete` does to each key with its create revision, for all of them in one transaction.

        Each key is compared for itself, by a transaction inside the transaction (etcd 3.3 and later); etcd takes up to
        127 of them (its option ``--max-txn-ops``).
        """
        deletions = [self._deletion(*key) for key in keys]
        if len(deletions) == 1:
            answers = [self._txn(deletions[0], timeout, unanswered)]
        else:
            together = rpc.TxnRequest(success=[rpc.RequestOp(request_txn=deletion) for deletion in deletions])
            answers = [each.response_txn for each in self._txn(together, timeout, unanswered).responses]
        return [bool(answer.succeeded and answer.responses[0].response_delete_range.deleted) for answer in answers]

    def _deletion(self, key: str, create_revision: int | None) -> Any:
        condition = [] if create_revision is None else [self.created(key, create_revision).build_message()]
        delete = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=self._encode(key)))
        return rpc.TxnRequest(compare=condition, success=[delete])

    def get_prefix(self, prefix: str, *, timeout: float | None = None) -> Snapshot:
        """All keys under `prefix`, by a linearizable read."""
        start, end = self._range(prefix)
        response = self._transport.call(lambda to: to.kv.Range, rpc.RangeRequest(key=start, range_end=end), timeout)
        keys = sorted(map(self._decode, response.kvs), key=lambda kv: kv.create_revision)
        return Snapshot(response.header.revision, keys)

    def has_keys(self, prefix: str, *, timeout: float | None = None) -> bool:
        """Whether any key stands under `prefix`, by a linearizable read."""
        start, end = self._range(prefix)
        request = rpc.RangeRequest(key=start, range_end=end, count_only=True)
        return bool(self._transport.call(lambda to: to.kv.Range, request, timeout).count)

    def watch(self, prefix: str) -> Watch:
        """The changes under `prefix` from now on."""
        start, end = self._range(prefix)
        create = rpc.WatchCreateRequest(key=start, range_end=end)
        stream = self._transport.open(lambda to: to.watch.Watch, rpc.WatchRequest(create_request=create))
        return Watch(stream, self._decode)

    def status(self, *, timeout: float | None = None) -> str:
        """The version of the etcd server that answers."""
        return str(self._transport.call(lambda to: to.maintenance.Status, rpc.StatusRequest(), timeout).version)

    def created(self, key: str, revision: int) -> Created:
        """The condition that `key` is the one created at `revision`; 0: that it does not exist."""
        return Created(self._encode(key), revision)

    def _put_if(
        self, condition: Any, wanted: KeyValue, timeout: float | None, unanswered: Callable[[], object] | None = None
    ) -> KeyValue | None:
        name = self._encode(wanted.key)
        put = rpc.RequestOp(request_put=rpc.PutRequest(key=name, value=wanted.value, lease=wanted.lease_id))
        get = rpc.RequestOp(request_range=rpc.RangeRequest(key=name))
        request = rpc.TxnRequest(compare=[condition], success=[put], failure=[get])
        response = self._txn(request, timeout, unanswered)
        if response.succeeded:
            revision = response.header.revision
            return wanted._replace(create_revision=wanted.create_revision or revision, mod_revision=revision)
        found = response.responses[0].response_range.kvs
        return self._decode(found[0]) if found else None

    def _txn(self, request: Any, timeout: float | None, unanswered: Callable[[], object] | None) -> Any:
        return self._transport.call(lambda to: to.kv.Txn, request, timeout, unanswered)

    # A key that is not UTF-8 is a stranger's; surrogates carry its bytes through unharmed.

    def _range(self, prefix: str) -> tuple[bytes, bytes]:
        start = self._encode(prefix)
        return start, start[:-1] + bytes([start[-1] + 1])  # no text ends with 0xff

    def _encode(self, key: str) -> bytes:
        return self._namespace + key.encode("utf-8", "surrogateescape")

    def _decode(self, kv: Any) -> KeyValue:
        key = kv.key[len(self._namespace) :].decode("utf-8", "surrogateescape")
        return KeyValue(key, kv.value, kv.create_revision, kv.mod_revision, kv.lease)
