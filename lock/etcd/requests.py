"""Requests of clients and recipes to etcd, as values: what is asked, and how to read the response.

Each write is conditional on a key that no other client writes, so it can be repeated where the answer was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
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


def time_to_live(lease_id: int) -> Call[LeaseStatus]:
    """What is left of a lease."""
    request = rpc.LeaseTimeToLiveRequest(ID=lease_id)
    return Call(lambda to: to.lease.LeaseTimeToLive, request, lambda told: LeaseStatus(told.TTL, told.grantedTTL))


def create(key: str, value: bytes, lease_id: int) -> Call[KeyValue | None]:
    """Write a key unless it exists; the key as it stands now."""
    return _put_if(created(key, 0).build_message(), KeyValue(key, value, 0, 0, lease_id))


def create_alone(prefix: str, key: str, value: bytes, lease_id: int) -> Call[KeyValue | None]:
    """Write a key if nothing stands under a prefix, in one atomic step; None if something does."""
    # A comparison over a range has to hold for each key in it, and holds for an empty one (etcd 3.3 and later).
    start, end = bounds(prefix)
    empty = rpc.Compare(
        key=start, range_end=end, target=rpc.Compare.CREATE, result=rpc.Compare.EQUAL, create_revision=0
    )
    return _put_if(empty, KeyValue(key, value, 0, 0, lease_id))


def replace(kv: KeyValue, value: bytes) -> Call[KeyValue | None]:
    """Give a key another value if it is still as `kv` says; the key as it stands now, or None if it is gone.

    A repetition changes nothing, for the first one has changed the mod revision.
    """
    unchanged = rpc.Compare(
        key=_encode(kv.key), target=rpc.Compare.MOD, result=rpc.Compare.EQUAL, mod_revision=kv.mod_revision
    )
    return _put_if(unchanged, kv._replace(value=value))


def delete_several(keys: Sequence[tuple[str, int | None]]) -> Call[list[bool]]:
    """Delete each key if it was created at its revision, by a transaction inside the transaction."""
    deletions = [_deletion(*key) for key in keys]
    if len(deletions) == 1:
        return Call(_txn, deletions[0], lambda response: [_deleted(response)])
    together = rpc.TxnRequest(success=[rpc.RequestOp(request_txn=deletion) for deletion in deletions])
    return Call(_txn, together, lambda response: [_deleted(each.response_txn) for each in response.responses])


def get_prefix(prefix: str) -> Call[Snapshot]:
    """List the keys under a prefix."""
    start, end = bounds(prefix)
    return Call(lambda to: to.kv.Range, rpc.RangeRequest(key=start, range_end=end), _read_list)


def created(key: str, revision: int) -> Created:
    """The condition that a key is the one created at `revision`; 0: that it does not exist."""
    return Created(_encode(key), revision)


# Keys of other clients may not be UTF-8; surrogates carry their bytes through unharmed.


def bounds(prefix: str) -> tuple[bytes, bytes]:
    """The first key of a prefix, and the first behind it."""
    start = _encode(prefix)
    return start, start[:-1] + bytes([start[-1] + 1])  # no text ends with 0xff


def decode(kv: Any) -> KeyValue:
    """A key as a plain value."""
    return KeyValue(text(kv.key), kv.value, kv.create_revision, kv.mod_revision, kv.lease)


def text(key: bytes) -> str:
    """The name of a key."""
    return key.decode("utf-8", "surrogateescape")


def _encode(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _deletion(key: str, create_revision: int | None) -> Any:
    condition = [] if create_revision is None else [created(key, create_revision).build_message()]
    delete = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=_encode(key)))
    return rpc.TxnRequest(compare=condition, success=[delete])


def _put_if(condition: Any, wanted: KeyValue) -> Call[KeyValue | None]:
    name = _encode(wanted.key)
    put = rpc.RequestOp(request_put=rpc.PutRequest(key=name, value=wanted.value, lease=wanted.lease_id))
    get = rpc.RequestOp(request_range=rpc.RangeRequest(key=name))
    request = rpc.TxnRequest(compare=[condition], success=[put], failure=[get])
    return Call(_txn, request, partial(_read_put, wanted))


def _read_put(wanted: KeyValue, response: Any) -> KeyValue | None:
    if response.succeeded:
        revision = response.header.revision
        return wanted._replace(create_revision=wanted.create_revision or revision, mod_revision=revision)
    found = response.responses[0].response_range.kvs
    return decode(found[0]) if found else None


def _read_list(response: Any) -> Snapshot:
    keys = sorted(map(decode, response.kvs), key=lambda kv: kv.create_revision)
    return Snapshot(response.header.revision, keys)


def _txn(endpoint: Endpoint) -> Any:
    return endpoint.kv.Txn


def _deleted(response: Any) -> bool:
    return bool(response.succeeded and response.responses[0].response_delete_range.deleted)
