"""Requests of clients and recipes to etcd, as values: what is asked, and how to read the response.

Each write is conditional on a key that no other client writes, so it can be repeated where the answer was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from lock.core import messages
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
        return Call(_time_to_live, request, lambda told: LeaseStatus(told.TTL, told.grantedTTL))

    def create(self, key: str, value: bytes, lease_id: int) -> Call[KeyValue | None]:
        """Write a key unless it exists; the key as it stands now."""
        return self._put_if(self.created(key, 0).build_message(), KeyValue(key, value, 0, 0, lease_id))

    def replace(self, kv: KeyValue, value: bytes) -> Call[KeyValue | None]:
        """Give a key another value if it is still as `kv` says; the key as it stands now, or None if it is gone.

        A repetition changes nothing, for the first one has changed the mod revision.
        """
        unchanged = rpc.Compare(
            key=self._encode(kv.key), target=rpc.Compare.MOD, result=rpc.Compare.EQUAL, mod_revision=kv.mod_revision
        )
        return self._put_if(unchanged, kv._replace(value=value))

    def delete(self, *keys: tuple[str, int | None]) -> Call[list[bool]]:
        """Delete each key if it was created at this revision (at any, if None); whether it was there."""
        call = self.delete_keys(messages.Delete(keys, (), 0))
        return Call(_txn, call.request, lambda response: call.read(response).there)

    def get_prefix(self, prefix: str, *, limit: int = 0) -> Call[Snapshot]:
        """List the keys under a prefix; at most `limit`, the first by name, if it is not 0."""
        start, end = self.range(prefix)
        return Call(_range, rpc.RangeRequest(key=start, range_end=end, limit=limit), self._read_list)

    def put_if(self, key: str, value: bytes, lease_id: int, conditions: Iterable[Created]) -> Call[bool]:
        """Write a key where each condition holds; whether they did."""
        put = rpc.RequestOp(request_put=rpc.PutRequest(key=self._encode(key), value=value, lease=lease_id))
        return Call(_txn, rpc.TxnRequest(compare=_messages(conditions), success=[put]), _succeeded)

    def delete_if(self, key: str, conditions: Iterable[Created]) -> Call[bool]:
        """Delete a key where each condition holds; whether they did."""
        delete = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=self._encode(key)))
        return Call(_txn, rpc.TxnRequest(compare=_messages(conditions), success=[delete]), _succeeded)

    # What the core orders

    def create_key(self, wanted: messages.Create) -> Call[messages.Written]:
        """Write a key unless it exists, or unless anything stands under its prefix; and count that, or list it."""
        name = self._encode(wanted.key)
        put = rpc.RequestOp(request_put=rpc.PutRequest(key=name, value=wanted.value, lease=wanted.lease_id))
        get = rpc.RequestOp(request_range=rpc.RangeRequest(key=name))
        absent = {"target": rpc.Compare.CREATE, "result": rpc.Compare.EQUAL, "create_revision": 0}
        look = []
        if wanted.prefix:
            start, end = self.range(wanted.prefix)
            queue = rpc.RangeRequest(key=start, range_end=end, count_only=not wanted.lists)
            look = [rpc.RequestOp(request_range=queue)]
        if wanted.if_free:
            # A comparison over a range has to hold for each key in it, and holds for an empty one (etcd 3.3 and later).
            condition = rpc.Compare(key=start, range_end=end, **absent)
        else:
            condition = rpc.Compare(key=name, **absent)
        request = rpc.TxnRequest(compare=[condition], success=[put, *look], failure=[get, *look])
        return Call(_txn, request, partial(self._read_created, wanted))

    def delete_keys(self, wanted: messages.Delete) -> Call[messages.Deleted]:
        """Delete each key; each by a transaction inside the transaction, of which etcd takes up to 127."""
        deletions = [self._deletion(*key) for key in wanted.keys]
        if len(deletions) == 1:
            return Call(_txn, deletions[0], lambda done: messages.Deleted([_deleted(done)], done.header.revision))
        together = rpc.TxnRequest(success=[rpc.RequestOp(request_txn=deletion) for deletion in deletions])
        return Call(_txn, together, _read_deleted)

    def list_queues(self, wanted: messages.ListQueues) -> Call[dict[str, Snapshot]]:
        """List the keys under each prefix."""
        ranges = [rpc.RangeRequest(key=start, range_end=end) for start, end in map(self.range, wanted.prefixes)]
        if len(ranges) == 1:
            return Call(_range, ranges[0], lambda response: {wanted.prefixes[0]: self._read_list(response)})

        def read(response: Any) -> dict[str, Snapshot]:
            lists = [self._read_list(each.response_range, response.header.revision) for each in response.responses]
            return dict(zip(wanted.prefixes, lists, strict=True))

        return Call(_txn, rpc.TxnRequest(success=[rpc.RequestOp(request_range=each) for each in ranges]), read)

    def read_keys(self, wanted: messages.ReadKeys) -> Call[messages.Found]:
        """Read keys."""
        gets = [rpc.RequestOp(request_range=rpc.RangeRequest(key=self._encode(key))) for key in wanted.tickets]

        def read(response: Any) -> messages.Found:
            found = [self.decode(kv) for each in response.responses for kv in each.response_range.kvs]
            return messages.Found({kv.key: kv for kv in found}, response.header.revision)

        return Call(_txn, rpc.TxnRequest(success=gets), read)

    def list_lease(self, lease_id: int) -> Call[messages.LeaseKeys]:
        """The keys of a lease."""
        request = rpc.LeaseTimeToLiveRequest(ID=lease_id, keys=True)
        return Call(_time_to_live, request, lambda told: messages.LeaseKeys(told.TTL, self.own(told.keys)))

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

    def _read_created(self, wanted: messages.Create, response: Any) -> messages.Written:
        revision = response.header.revision
        kv: KeyValue | None = None
        if response.succeeded:
            kv = KeyValue(wanted.key, wanted.value, revision, revision, wanted.lease_id)
        elif response.responses[0].response_range.kvs:
            kv = self.decode(response.responses[0].response_range.kvs[0])
        if not wanted.prefix:
            return messages.Written(kv, None, None, revision)
        queue = response.responses[1].response_range
        keys = self._read_list(queue, revision).keys if wanted.lists else None
        return messages.Written(kv, queue.count, keys, revision)

    def _read_list(self, response: Any, revision: int = 0) -> Snapshot:
        keys = sorted(map(self.decode, response.kvs), key=lambda kv: kv.create_revision)
        return Snapshot(revision or response.header.revision, keys)


def _txn(endpoint: Endpoint) -> Any:
    return endpoint.kv.Txn


def _range(endpoint: Endpoint) -> Any:
    return endpoint.kv.Range


def _time_to_live(endpoint: Endpoint) -> Any:
    return endpoint.lease.LeaseTimeToLive


def _read_deleted(response: Any) -> messages.Deleted:
    return messages.Deleted([_deleted(each.response_txn) for each in response.responses], response.header.revision)


def _deleted(response: Any) -> bool:
    return bool(response.succeeded and response.responses[0].response_delete_range.deleted)


def _messages(conditions: Iterable[Created]) -> list[Any]:
    return [condition.build_message() for condition in conditions]


def _succeeded(response: Any) -> bool:
    return bool(response.succeeded)
