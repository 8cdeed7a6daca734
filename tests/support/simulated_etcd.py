"""A small etcd in memory for the simulation: keys, revisions, leases, lists, histories that watches are told from.

What is modelled is what etcd promises (documentation, "KV API guarantees"): one order of revisions, watches that tell
it in order and leave out no PUT; and what it has failed to promise: DELETE events that are never told (etcd issues
17529, 18089), and a lease's list of keys that lacks some, as a new leader's does.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from lock.core import messages
from lock.errors import LeaseNotFound
from lock.model import Event, KeyValue, Snapshot


class SimulatedEtcd:
    """The server; times are those of the simulation."""

    def __init__(self, chance: random.Random) -> None:
        self.revision = 1
        self.keys: dict[str, KeyValue] = {}
        self.leases: dict[int, tuple[int, float]] = {}  # TTL and the time of its end
        self.history: list[list[Event]] = []  # of the revisions from 2 on
        self.epoch = 0  # rises when it is restored
        self.listeners: dict[object, Callable[[], object]] = {}  # told of each change
        self._chance = chance
        self._backup: tuple[int, dict[str, KeyValue], dict[int, tuple[int, float]]] | None = None

    # Leases

    def grant(self, lease_id: int, ttl: int, time: float) -> None:
        self.leases[lease_id] = ttl, time + ttl

    def keep_alive(self, lease_id: int, time: float) -> int:
        if lease_id not in self.leases:
            return 0
        ttl, _ = self.leases[lease_id]
        self.leases[lease_id] = ttl, time + ttl
        return ttl

    def expire(self, time: float) -> None:
        for lease_id in [lease for lease, (_, end) in self.leases.items() if end <= time]:
            self.revoke(lease_id)

    def revoke(self, lease_id: int) -> None:
        self.leases.pop(lease_id, None)
        self.remove([kv.key for kv in self.keys.values() if kv.lease_id == lease_id])

    # What the core orders

    def serve(self, request: messages.Request) -> object:
        match request:
            case messages.Create():
                return self.create(request)
            case messages.CreateAll():
                return self._create_all(request.creates)
            case messages.Delete():
                return self._delete(request)
            case messages.ListQueues():
                return {prefix: Snapshot(self.revision, self.under(prefix)) for prefix in request.prefixes}
            case messages.ReadKeys():
                return messages.Found(
                    {key: self.keys[key] for key in request.tickets if key in self.keys}, self.revision
                )
        raise AssertionError(request)

    def create(self, request: messages.Create) -> messages.Written:
        is_free = not self.under(request.prefix) if request.if_free else request.key not in self.keys
        if is_free:
            if request.lease_id not in self.leases:
                raise LeaseNotFound("requested lease not found")
            self.put(request.key, request.value, request.lease_id)
        kv = self.keys.get(request.key)
        there = self.under(request.prefix) if request.prefix else None
        count = len(there) if there is not None else None
        return messages.Written(kv, count, there if request.lists else None, self.revision)

    def _create_all(self, creates: tuple[messages.Create, ...]) -> list[messages.Written]:
        if not any(self.under(create.prefix) for create in creates):
            if creates[0].lease_id not in self.leases:
                raise LeaseNotFound("requested lease not found")
            self.revision += 1
            new = [KeyValue(each.key, each.value, self.revision, self.revision, each.lease_id) for each in creates]
            self.keys.update((kv.key, kv) for kv in new)
            self._changed([Event(False, kv) for kv in new])
        kvs = [kv for create in creates if (kv := self.keys.get(create.key)) is not None]
        is_one = len(kvs) == len(creates) and len({(kv.create_revision, kv.lease_id) for kv in kvs}) == 1
        return (
            [messages.Written(kv, 1, None, self.revision) for kv in kvs]
            if is_one
            else [messages.Written(None, None, None, self.revision)] * len(creates)
        )

    def lease_keys(self, lease_id: int) -> messages.LeaseKeys:
        if lease_id not in self.leases:
            return messages.LeaseKeys(-1, ())
        keys = [kv.key for kv in self.keys.values() if kv.lease_id == lease_id]
        if self._chance.random() < 0.1:
            keys = [key for key in keys if self._chance.random() < 0.5]
        return messages.LeaseKeys(self.leases[lease_id][0], keys)

    def _delete(self, request: messages.Delete) -> messages.Deleted:
        there = []
        for key, revision in request.keys:
            kv = self.keys.get(key)
            matches = kv is not None and revision in (None, kv.create_revision)
            there.append(matches)
            if matches:
                self.remove([key])
        return messages.Deleted(there, self.revision)

    # Keys

    def put(self, key: str, value: bytes, lease_id: int) -> KeyValue:
        self.revision += 1
        kv = self.keys[key] = KeyValue(key, value, self.revision, self.revision, lease_id)
        self._changed([Event(False, kv)])
        return kv

    def remove(self, keys: list[str]) -> None:
        if keys:
            self.revision += 1
            for key in keys:
                del self.keys[key]
            self._changed([Event(True, KeyValue(key, b"", 0, self.revision, 0)) for key in keys])

    def _changed(self, events: list[Event]) -> None:
        self.history.append(events)
        for listener in list(self.listeners.values()):
            listener()

    def under(self, prefix: str) -> list[KeyValue]:
        found = [kv for kv in self.keys.values() if kv.key.startswith(prefix)]
        return sorted(found, key=lambda kv: kv.create_revision)

    def has(self, key: str, create_revision: int | None) -> bool:
        return key in self.keys and self.keys[key].create_revision == create_revision

    def events(self, prefix: str, after: int) -> list[tuple[int, list[Event]]]:
        """Those under a prefix of later revisions."""
        told = []
        for revision, events in enumerate(self.history[after - 1 :], start=after + 1):
            ours = [event for event in events if event.kv.key.startswith(prefix)]
            if ours:
                told.append((revision, ours))
        return told

    # Restoring

    def back_up(self) -> None:
        self._backup = self.revision, dict(self.keys), dict(self.leases)

    def restore(self, time: float) -> bool:
        """Go back to the backup, where there is one; leases live on from now, as when etcd starts."""
        if self._backup is None or self._backup[0] == self.revision:
            return False
        self.revision, self.keys, leases = self._backup[0], dict(self._backup[1]), self._backup[2]
        self.leases = {lease: (ttl, time + ttl) for lease, (ttl, _) in leases.items()}
        self.history = self.history[: self.revision - 1]
        self.epoch += 1
        for listener in list(self.listeners.values()):
            listener()
        return True
