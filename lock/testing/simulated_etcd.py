"""A small etcd in memory: keys, revisions, leases, lists, histories that watches are told from.

What is modelled is what etcd promises (documentation, "KV API guarantees"): one order of revisions, and watches that
tell it in order. It has no clock and no lock: times are told, and its driver makes one call after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from lock.core import messages
from lock.errors import LeaseNotFound
from lock.etcd.requests import Created
from lock.model import Event, KeyValue, LeaseStatus, Snapshot


class SimulatedEtcd:
    """The server.

    Attributes:
        leases: TTL and the time of its end for each id.
        history: the events of each revision, from 2 on.
        listeners: called at each change; quick, and never raise.
    """

    def __init__(self) -> None:
        self.revision = 1
        self.keys: dict[str, KeyValue] = {}
        self.leases: dict[int, tuple[int, float]] = {}
        self.history: list[list[Event]] = []
        self.listeners: dict[Any, Callable[[], object]] = {}
        self._time = 0.0

    def grant(self, lease_id: int, ttl: int, time: float) -> None:
        self.leases[lease_id] = ttl, time + ttl

    def keep_alive(self, lease_id: int, time: float) -> int:
        ttl, _ = self.leases.get(lease_id, (0, 0.0))
        if ttl:
            self.grant(lease_id, ttl, time)
        return ttl

    def expire(self, time: float) -> None:
        self._time = time
        for lease_id in [lease for lease, (_, end) in self.leases.items() if end <= time]:
            self.revoke(lease_id)

    def revoke(self, lease_id: int) -> None:
        self.leases.pop(lease_id, None)
        self.remove([kv.key for kv in self.keys.values() if kv.lease_id == lease_id])

    def list_lease(self, lease_id: int) -> messages.LeaseKeys:
        ttl, _ = self.leases.get(lease_id, (-1, 0.0))
        return messages.LeaseKeys(ttl, [kv.key for kv in self.keys.values() if kv.lease_id == lease_id])

    def time_to_live(self, request: messages.TimeToLive) -> LeaseStatus:
        ttl, end = self.leases.get(request.lease_id, (0, self._time - 1))
        return LeaseStatus(int(end - self._time), ttl)

    def create_key(self, request: messages.Create) -> messages.Written:
        is_new = not self.under(request.prefix) if request.if_free else request.key not in self.keys
        if is_new:
            self.put(request.key, request.value, request.lease_id)
        kv = self.keys.get(request.key)
        if not request.prefix:
            return messages.Written(kv, None, None, self.revision, not is_new)
        there, before = self.under(request.prefix), None
        if request.finds_position and len(there) > 1 and there[-1] == kv:
            before = there[-2]
        return messages.Written(kv, len(there), there if request.lists else None, self.revision, not is_new, before)

    def delete_keys(self, request: messages.Delete) -> messages.Deleted:
        there = []
        for key, revision in request.keys:
            there.append(key in self.keys and revision in (None, self.keys[key].create_revision))
            self.remove([key] if there[-1] else [])
        return messages.Deleted(there, self.revision)

    def list_queue(self, request: messages.ListQueue) -> Snapshot:
        return Snapshot(self.revision, self.under(request.prefix)[: 1 if request.only_first else None])

    def find_position(self, request: messages.FindPosition) -> messages.PositionFound:
        ticket, before = request.position.ticket, request.position.before
        if before is None or not self.has(before.key, before.create_revision):
            earlier = [kv for kv in self.under(ticket.queue.prefix) if kv.create_revision < (ticket.created or 0)]
            before = earlier[-1] if earlier else None
        return messages.PositionFound(self.keys.get(ticket.key), before, self.revision)

    def read_keys(self, request: messages.ReadKeys) -> messages.Found:
        return messages.Found({key: self.keys[key] for key in request.tickets if key in self.keys}, self.revision)

    def get_prefix(self, prefix: str, *, limit: int = 0) -> Snapshot:
        first = sorted(self.under(prefix))[: limit or None]
        return Snapshot(self.revision, sorted(first, key=attrgetter("create_revision")))

    def put_if(self, key: str, value: bytes, lease_id: int, conditions: Iterable[Created]) -> bool:
        return self._holds(conditions) and self.put(key, value, lease_id) is not None

    def delete_if(self, key: str, conditions: Iterable[Created]) -> bool:
        is_right = self._holds(conditions)
        self.remove([key] if is_right and key in self.keys else [])
        return is_right

    def put(self, key: str, value: bytes, lease_id: int) -> KeyValue:
        self._check_lease(lease_id)
        self.revision += 1
        created = self.keys[key].create_revision if key in self.keys else self.revision
        kv = self.keys[key] = KeyValue(key, value, created, self.revision, lease_id)
        self._changed([Event(False, kv)])
        return kv

    def remove(self, keys: list[str]) -> None:
        if keys:
            self.revision += 1
            for key in keys:
                del self.keys[key]
            self._changed([Event(True, KeyValue(key, b"", 0, self.revision, 0)) for key in keys])

    def under(self, prefix: str) -> list[KeyValue]:
        return sorted((kv for kv in self.keys.values() if kv.key.startswith(prefix)), key=attrgetter("create_revision"))

    def has(self, key: str, create_revision: int | None) -> bool:
        return key in self.keys and self.keys[key].create_revision == create_revision

    def _changed(self, events: list[Event]) -> None:
        self.history.append(events)
        for listener in list(self.listeners.values()):
            listener()

    def _holds(self, conditions: Iterable[Created]) -> bool:
        named = [(key.decode("utf-8", "surrogateescape"), revision) for key, revision in conditions]
        return all(self.has(key, revision) if revision else key not in self.keys for key, revision in named)

    def _check_lease(self, lease_id: int) -> None:
        if lease_id and lease_id not in self.leases:
            raise LeaseNotFound("requested lease not found")
