"""Requests of clients and recipes to etcd, as values: what is asked, and how to read the response.

Each write is conditional on a key that no other client writes, so it can be repeated where the answer was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from lock.etcd.transport import Call, Endpoint, rpc
from lock.model import KeyValue, LeaseStatus, Snapshot


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


class Requests:
    """Builds the requests of one client, for `Client.answer` and `Client.ask`.

    Args:
        namespace: stands in front of every key.
    """

    def __init__(self, namespace: bytes) -> None:
        self._namespace = namespace

    def time_to_live(self, lease_id: int) -> Call[LeaseStatus]:
        """What is left of a lease."""
        request = rpc.LeaseTimeToLiveRequest(ID=lease_id)
        return Call(lambda to: to.lease.LeaseTimeToLive, request, lambda told: LeaseStatus(told.TTL, told.grantedTTL))

    def create(self, key: str, value: bytes, lease_id: int) -> Call[KeyValue | None]:
        """Write a key unless it exists; the key as it stands now."""
        return self._put_if(self.created(key, 0).build_message(), KeyValue(key, value, 0, 0, lease_id))

    def create_alone(self, prefix: str, key: str, value: bytes, lease_id: int) -> Call[KeyValue | None]:
        """Write a key if nothing stands under a prefix, in one atomic step; None if something does."""
        # A comparison over a range has to hold for each key in it, and holds for an empty one (etcd 3.3 and later).
        start, end = self.range(prefix)
        empty = rpc.Compare(
            key=start, range_end=end, target=rpc.Compare.CREATE, result=rpc.Compare.EQUAL, create_revision=0
        )
        return self._put_if(empty, KeyValue(key, value, 0, 0, lease_id))

    def replace(self, kv: KeyValue, value: bytes) -> Call[KeyValue | None]:
        """Give a key another value if it is still as `kv` says; the key as it stands now, or None if it is gone.

        A repetition changes nothing, for the first one has changed the mod revision.
        """
        unchanged = rpc.Compare(
            key=self._encode(kv.key), target=rpc.Compare.MOD, result=rpc.Compare.EQUAL, mod_revision=kv.mod_revision
        )
        return self._put_if(unchanged, kv._replace(value=value))

    def delete(self, *keys: tuple[str, int | None]) -> Call[list[bool]]:
        """Delete each key if it was created at this revision (at any, if None); whether it was there.

        Without the comparison, a late repetition of an old release could free a newer hold (etcd issue 22082). Each is
        a transaction inside the transaction, of which etcd takes up to 127 (``--max-txn-ops``).
        """
        deletions = [self._deletion(*key) for key in keys]
        if len(deletions) == 1:
            return Call(_txn, deletions[0], lambda response: [_deleted(response)])
        together = rpc.TxnRequest(success=[rpc.RequestOp(request_txn=deletion) for deletion in deletions])
        return Call(_txn, together, lambda response: [_deleted(each.response_txn) for each in response.responses])

    def get_prefix(self, prefix: str, *, limit: int = 0) -> Call[Snapshot]:
        """List the keys under a prefix; at most `limit`, the first by name, if it is not 0."""
        start, end = self.range(prefix)
        return Call(lambda to: to.kv.Range, rpc.RangeRequest(key=start, range_end=end, limit=limit), self._read_list)

    def created(self, key: str, revision: int) -> Created:
        """The condition that a key is the one created at `revision`; 0: that it does not exist."""
        return Created(self._encode(key), revision)

    # Keys of other clients may not be UTF-8; surrogates carry their bytes through unharmed.

    def range(self, prefix: str) -> tuple[bytes, bytes]:
        """The first key of a prefix, and the first behind it."""
        start = self._encode(prefix)
        return start, start[:-1] + bytes([start[-1] + 1])  # no text ends with 0xff

    def decode(self, kv: Any) -> KeyValue:
        """A key as a plain value, without the namespace."""
        return KeyValue(self._name(kv.key), kv.value, kv.create_revision, kv.mod_revision, kv.lease)

    def _name(self, key: bytes) -> str:
        return key[len(self._namespace) :].decode("utf-8", "surrogateescape")

    def own(self, keys: Iterable[bytes]) -> list[str]:
        """The names of those keys that stand in the namespace."""
        return [self._name(key) for key in keys if key.startswith(self._namespace)]

    def _encode(self, key: str) -> bytes:
        return self._namespace + key.encode("utf-8", "surrogateescape")

    def _deletion(self, key: str, create_revision: int | None) -> Any:
        condition = [] if create_revision is None else [self.created(key, create_revision).build_message()]
        delete = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=self._encode(key)))
        return rpc.TxnRequest(compare=condition, success=[delete])

    def _put_if(self, condition: Any, wanted: KeyValue) -> Call[KeyValue | None]:
        name = self._encode(wanted.key)
        put = rpc.RequestOp(request_put=rpc.PutRequest(key=name, value=wanted.value, lease=wanted.lease_id))
        get = rpc.RequestOp(request_range=rpc.RangeRequest(key=name))
        request = rpc.TxnRequest(compare=[condition], success=[put], failure=[get])
        return Call(_txn, request, partial(self._read_put, wanted))

    def _read_put(self, wanted: KeyValue, response: Any) -> KeyValue | None:
        if response.succeeded:
            revision = response.header.revision
            return wanted._replace(create_revision=wanted.create_revision or revision, mod_revision=revision)
        found = response.responses[0].response_range.kvs
        return self.decode(found[0]) if found else None

    def _read_list(self, response: Any) -> Snapshot:
        keys = sorted(map(self.decode, response.kvs), key=lambda kv: kv.create_revision)
        return Snapshot(response.header.revision, keys)


def _txn(endpoint: Endpoint) -> Any:
    return endpoint.kv.Txn


def _deleted(response: Any) -> bool:
    return bool(response.succeeded and response.responses[0].response_delete_range.deleted)
