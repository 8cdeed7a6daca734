"""Requests of clients and recipes to etcd, as values: what is asked, and how to read the response.

Each write is conditional on a key that no other client writes, so it can be repeated if the answer was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from lock.core import messages
from lock.etcd.transport import Call, rpc
from lock.model import KeyValue, LeaseStatus, Snapshot

# Messages are built of dicts, in half the time that objects for their parts take: these are copied into the whole.
_CREATE, _EQUAL = rpc.Compare.CREATE, rpc.Compare.EQUAL
# The first and the last keys of a range by their create revisions: etcd reads the whole range, and sorts it.
_FIRST = {"sort_target": rpc.RangeRequest.CREATE, "sort_order": rpc.RangeRequest.ASCEND, "limit": 1}
_LAST = {"sort_target": rpc.RangeRequest.CREATE, "sort_order": rpc.RangeRequest.DESCEND, "keys_only": True}
# Of an endpoint.
_txn, _range, _time_to_live = attrgetter("kv.Txn"), attrgetter("kv.Range"), attrgetter("lease.LeaseTimeToLive")


class Created(NamedTuple):
    """The condition that a key was created at `revision` and not since; for a lock's key: its owner still holds it.

    `etcd3.Etcd3Client.transaction` takes it in `compare`; for a raw ``TxnRequest`` there is `build_message`.
    """

    key: bytes
    revision: int

    def build_message(self) -> Any:
        """An ``etcdserverpb.Compare``."""
        return rpc.Compare(**_created(self.key, self.revision))


class Requests:
    """Builds the requests of one client, for `Client.call` and `Client.send`; `namespace` is in front of every key."""

    def __init__(self, namespace: bytes) -> None:
        self._namespace = namespace

    def time_to_live(self, wanted: messages.TimeToLive) -> Call[LeaseStatus]:
        request = rpc.LeaseTimeToLiveRequest(ID=wanted.lease_id)
        return Call(_time_to_live, request, lambda response: LeaseStatus(response.TTL, response.grantedTTL))

    def get_prefix(self, prefix: str, *, limit: int = 0) -> Call[Snapshot]:
        """List the keys under a prefix; at most `limit`, the first by name, if it is not 0."""
        start, end = self.range(prefix)
        return Call(_range, rpc.RangeRequest(key=start, range_end=end, limit=limit), self._read_list)

    def put_if(self, key: str, value: bytes, lease_id: int, conditions: Iterable[Created]) -> Call[bool]:
        return _do_if(conditions, {"request_put": {"key": self._encode(key), "value": value, "lease": lease_id}})

    def delete_if(self, key: str, conditions: Iterable[Created]) -> Call[bool]:
        return _do_if(conditions, {"request_delete_range": {"key": self._encode(key)}})

    def create_key(self, wanted: messages.Create) -> Call[messages.Written]:
        """Write a key unless it exists, or unless anything stands under its prefix; and count that, or list it."""
        key = self._encode(wanted.key)
        absent, look = _created(key, 0), []
        if wanted.prefix:
            start, end = self.range(wanted.prefix)
            how = {"limit": 2, **_LAST} if wanted.finds_position else {"count_only": not wanted.lists}
            look = [{"request_range": {"key": start, "range_end": end, **how}}]
        if wanted.if_free:
            # A comparison over a range has to hold for each key in it, and holds for an empty one (etcd 3.3 and later).
            absent = {**absent, "key": start, "range_end": end}
        put = {"request_put": {"key": key, "value": wanted.value, "lease": wanted.lease_id}}
        get = {"request_range": {"key": key}}
        request = rpc.TxnRequest(compare=[absent], success=[put, *look], failure=[get, *look])
        return Call(_txn, request, partial(self._read_created, wanted))

    def delete_keys(self, wanted: messages.Delete) -> Call[messages.Deleted]:
        """Delete each key; each by a transaction inside the transaction, of which etcd takes up to 127."""
        if len(wanted.keys) == 1:
            request = rpc.TxnRequest(**self._deletion(*wanted.keys[0]))
            return Call(_txn, request, lambda done: messages.Deleted([_deleted(done)], done.header.revision))
        together = rpc.TxnRequest(success=[{"request_txn": self._deletion(*key)} for key in wanted.keys])
        return Call(_txn, together, _read_deleted)

    def list_queue(self, wanted: messages.ListQueue) -> Call[Snapshot]:
        start, end = self.range(wanted.prefix)
        how = _FIRST if wanted.only_first else {}
        return Call(_range, rpc.RangeRequest(key=start, range_end=end, **how), self._read_list)

    def find_position(self, wanted: messages.FindPosition) -> Call[messages.PositionFound]:
        """Read a key, and the last one before it; which is cheap where the one that is known is still there."""
        ticket, known = wanted.position.ticket, wanted.position.before
        own = {"request_range": {"key": self._encode(ticket.key), "keys_only": True}}
        start, end = self.range(ticket.queue.prefix)
        earlier = {"max_create_revision": (ticket.created or 0) - 1, "limit": 1, **_LAST}
        search = [own, {"request_range": {"key": start, "range_end": end, **earlier}}]
        if known is None:
            request = rpc.TxnRequest(success=search)
        else:
            key = self._encode(known.key)
            look = [own, {"request_range": {"key": key, "keys_only": True}}]
            unchanged = _created(key, known.create_revision)
            request = rpc.TxnRequest(compare=[unchanged], success=look, failure=search)

        def read(response: Any) -> messages.PositionFound:
            kvs = [next(map(self.decode, each.response_range.kvs), None) for each in response.responses]
            return messages.PositionFound(kvs[0], kvs[1], response.header.revision)

        return Call(_txn, request, read)

    def read_keys(self, wanted: messages.ReadKeys) -> Call[messages.Found]:
        gets = [{"request_range": {"key": self._encode(key)}} for key in wanted.tickets]

        def read(response: Any) -> messages.Found:
            kvs = [self.decode(kv) for each in response.responses for kv in each.response_range.kvs]
            return messages.Found({kv.key: kv for kv in kvs}, response.header.revision)

        return Call(_txn, rpc.TxnRequest(success=gets), read)

    def list_lease(self, lease_id: int) -> Call[messages.LeaseKeys]:
        request = rpc.LeaseTimeToLiveRequest(ID=lease_id, keys=True)

        def read(response: Any) -> messages.LeaseKeys:
            ours = [self._name(key) for key in response.keys if key.startswith(self._namespace)]
            return messages.LeaseKeys(response.TTL, ours)

        return Call(_time_to_live, request, read)

    def created(self, key: str, revision: int) -> Created:
        """The condition that a key is the one created at `revision`; 0: that it does not exist."""
        return Created(self._encode(key), revision)

    # Keys of other clients may not be UTF-8; surrogates carry their bytes through unharmed.

    def range(self, prefix: str, *, is_key: bool = False) -> tuple[bytes, bytes]:
        """The first key of a prefix, and the first behind it; b"" for a key alone."""
        start = self._encode(prefix)
        if is_key:
            return start, b""
        if not start:
            return b"\0", b"\0"  # etcd's words for all keys
        return start, start[:-1] + bytes([start[-1] + 1])  # no text ends with 0xff

    def decode(self, kv: Any) -> KeyValue:
        """A key as a plain value, without the namespace."""
        return KeyValue(self._name(kv.key), kv.value, kv.create_revision, kv.mod_revision, kv.lease)

    def _name(self, key: bytes) -> str:
        return key[len(self._namespace) :].decode("utf-8", "surrogateescape")

    def _encode(self, key: str) -> bytes:
        return self._namespace + key.encode("utf-8", "surrogateescape")

    def _deletion(self, name: str, create_revision: int | None) -> dict[str, Any]:
        key = self._encode(name)
        condition = [] if create_revision is None else [_created(key, create_revision)]
        return {"compare": condition, "success": [{"request_delete_range": {"key": key}}]}

    def _found(self, response: Any) -> KeyValue | None:
        kvs = response.responses[0].response_range.kvs
        return self.decode(kvs[0]) if kvs else None

    def _read_created(self, wanted: messages.Create, response: Any) -> messages.Written:
        revision, was_there = response.header.revision, not response.succeeded
        written = KeyValue(wanted.key, wanted.value, revision, revision, wanted.lease_id)
        kv = self._found(response) if was_there else written
        if not wanted.prefix:
            return messages.Written(kv, None, None, revision, was_there)
        queue = response.responses[1].response_range
        keys = self._read_list(queue, revision).keys if wanted.lists else None
        has_before = wanted.finds_position and len(queue.kvs) == 2 and queue.kvs[0].key == self._encode(wanted.key)
        before = self.decode(queue.kvs[1]) if has_before else None
        return messages.Written(kv, queue.count, keys, revision, was_there, before)

    def _read_list(self, response: Any, revision: int = 0) -> Snapshot:
        keys = sorted(map(self.decode, response.kvs), key=lambda kv: kv.create_revision)
        return Snapshot(revision or response.header.revision, keys)


def _read_deleted(response: Any) -> messages.Deleted:
    return messages.Deleted([_deleted(each.response_txn) for each in response.responses], response.header.revision)


def _deleted(response: Any) -> bool:
    return bool(response.succeeded and response.responses[0].response_delete_range.deleted)


def _do_if(conditions: Iterable[Created], operation: dict[str, Any]) -> Call[bool]:
    """Do this if each condition holds; whether they did."""
    compare = [_created(*condition) for condition in conditions]
    request = rpc.TxnRequest(compare=compare, success=[operation])
    return Call(_txn, request, lambda response: bool(response.succeeded))


def _created(key: bytes, revision: int) -> dict[str, Any]:
    """The comparison that a key was created at this revision; 0: that it does not exist."""
    return {"key": key, "target": _CREATE, "result": _EQUAL, "create_revision": revision}
