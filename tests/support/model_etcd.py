"""A small etcd in memory, and a client of it behind a network that loses, delays and repeats.

Only for the state machine: everything else runs on a real etcd. What is modelled is what etcd promises (documentation,
"KV API guarantees"): one order of revisions, watches that tell it in order and leave out no PUT; and what it has failed
to promise: DELETE events that are never told (etcd issues 17529, 18089).
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, TypeVar

from lock.errors import EtcdError, EtcdUnavailable, LeaseNotFound
from lock.etcd.requests import Requests
from lock.etcd.transport import Call, rpc
from lock.model import Event, KeyValue, LeaseStatus, Snapshot
from lock.runtime.execution import Execution

T = TypeVar("T")

PREFIX = "shop/"
PATIENCE_S = 10.0


class Fate(Enum):
    ANSWERED = "it is done, and the answer arrives"
    LOST_BEFORE = "it never arrives"
    LOST_AFTER = "it is done, and the answer is lost"
    LATE = "it arrives some time after it was given up"
    REPEATED = "it is done, the answer is lost, and another endpoint answers"
    DUPLICATED = "another endpoint answers, and the first one does it some time later"


class ModelEtcd:
    def __init__(self) -> None:
        self.revision = 1
        self.keys: dict[str, KeyValue] = {}
        self.leases: set[int] = set()
        self.history: list[tuple[int, list[Event]]] = []
        self.snapshots = [Snapshot(1, [])]
        self._lease_ids = itertools.count(1)

    def grant(self) -> int:
        lease_id = next(self._lease_ids)
        self.leases.add(lease_id)
        return lease_id

    def create(self, key: str, value: bytes, lease_id: int) -> KeyValue:
        if lease_id not in self.leases:
            raise LeaseNotFound("gone")
        if key not in self.keys:
            kv = self.keys[key] = KeyValue(key, value, self.revision + 1, self.revision + 1, lease_id)
            self._changed([Event(False, kv)])
        return self.keys[key]

    def delete(self, key: str, create_revision: int | None) -> bool:
        kv = self.keys.get(key)
        if kv is None or create_revision not in (None, kv.create_revision):
            return False
        self._remove([key])
        return True

    def revoke(self, lease_id: int) -> None:
        """End a lease, with all its keys, in one revision."""
        self.leases.discard(lease_id)
        self._remove([kv.key for kv in self.keys.values() if kv.lease_id == lease_id])

    def overwrite(self, key: str, value: bytes = b"new") -> None:
        """A new value; the create revision, and so the place, stays."""
        kv = self.keys[key] = self.keys[key]._replace(value=value, mod_revision=self.revision + 1)
        self._changed([Event(False, kv)])

    def in_order(self) -> list[KeyValue]:
        return sorted(self.keys.values(), key=lambda kv: kv.create_revision)

    def has(self, key: str, create_revision: int) -> bool:
        return key in self.keys and self.keys[key].create_revision == create_revision

    def was_created(self, key: str, revision: int) -> bool:
        return any(at == revision and any(kv.key == key for _, kv in events) for at, events in self.history)

    def _remove(self, names: list[str]) -> None:
        for name in names:
            del self.keys[name]
        if names:
            self._changed([Event(True, KeyValue(name, b"", 0, self.revision + 1, 0)) for name in names])

    def _changed(self, events: list[Event]) -> None:
        self.revision += 1
        self.history.append((self.revision, events))
        self.snapshots.append(Snapshot(self.revision, self.in_order()))


class ModelWatch:
    """A watch whose reader goes on only when it is told to."""

    def __init__(self, client: ModelClient) -> None:
        self.position: int | None = None  # told up to this revision; None while it is not open
        self.listed = False
        self.closed = False
        self._client = client
        self._orders: queue.SimpleQueue[list[Event] | EtcdError | None] = queue.SimpleQueue()

    def __iter__(self) -> Iterator[list[Event]]:
        while True:
            self._client.idle.release()
            order = self._orders.get()
            if order is None:
                return
            if isinstance(order, EtcdError):
                raise order
            yield order

    def tell(self, order: list[Event] | EtcdError | None) -> None:
        """Have the reader see a batch, an error or the end, and wait until it waits for the next one."""
        self._orders.put(order)
        assert self._client.idle.acquire(timeout=PATIENCE_S), "the follower hangs"

    def close(self) -> None:
        """As `lock.etcd.client.Watch.close`: called by the audit, or by the reader itself when it is done."""
        if not self.closed and threading.get_ident() == self._client.owner:
            self.closed = True
            self._client.closing.append(self)
            self._orders.put(None)


class ModelClient:
    """One process's way to the model; what becomes of its next calls is said before."""

    timeout = 1.0

    def __init__(self, etcd: ModelEtcd) -> None:
        self.etcd = etcd
        self.fate = Fate.ANSWERED
        self.stale: Snapshot | None = None
        self.meanwhile: Callable[[str], None] | None = None  # what happens to a key before its writing is acknowledged
        self.list_fails = False
        self.late: list[Callable[[], object]] = []  # what arrives when its call is over
        self.owner = threading.get_ident()
        self.idle = threading.Semaphore(0)
        self.closing: list[ModelWatch] = []
        self.requests = Requests(b"")
        self.current = ModelWatch(self)

    def check_process(self) -> None:
        """No process forks here."""

    def forked(self) -> bool:
        """No process forks here."""
        return False

    def create(
        self, key: str, value: bytes, lease_id: int, *, unanswered: Callable[[], object], **options: object
    ) -> KeyValue:
        kv = self._sent(lambda: self.etcd.create(key, value, lease_id), unanswered)
        if self.meanwhile is not None:
            self.meanwhile(key)
        return kv

    async def ask(self, execution: Execution, call: Call[Any], *, unanswered: Any = None, **options: object) -> Any:
        """As `lock.etcd.client.Client.ask`, for the requests of an acquisition and a hold."""
        if isinstance(call.request, rpc.LeaseTimeToLiveRequest):
            return self.time_to_live(call.request.ID)
        put, [condition] = call.request.success[0].request_put, call.request.compare
        if condition.target == rpc.Compare.CREATE:
            return self.create(put.key.decode(), put.value, put.lease, unanswered=unanswered)
        return self.replace(put.key.decode(), put.value, condition.mod_revision)

    def delete(
        self, key: str, create_revision: int | None, *, unanswered: Callable[[], object], **options: object
    ) -> bool:
        return self._sent(lambda: self.etcd.delete(key, create_revision), unanswered)

    def _sent(self, call: Callable[[], T], unanswered: Callable[[], object]) -> T:
        fate, self.fate = self.fate, Fate.ANSWERED
        if fate in (Fate.LATE, Fate.DUPLICATED):
            self.late.append(call)
        if fate in (Fate.LOST_AFTER, Fate.REPEATED):
            call()
        if fate is not Fate.ANSWERED:
            unanswered()
        if fate in (Fate.LATE, Fate.LOST_BEFORE, Fate.LOST_AFTER):
            raise EtcdUnavailable("lost")
        return call()

    def replace(self, key: str, value: bytes, mod_revision: int) -> KeyValue | None:
        if key in self.etcd.keys and self.etcd.keys[key].mod_revision == mod_revision:
            self.etcd.overwrite(key, value)
        return self.etcd.keys.get(key)

    def get_prefix(self, prefix: str, *, timeout: float | None = None) -> Snapshot:
        """As `lock.etcd.client.Client.get_prefix`; for an audit, perhaps one that was under way for long."""
        if threading.get_ident() == self.owner and self.stale is not None:
            return self.stale
        if self.list_fails:
            raise EtcdUnavailable("lost")
        return self.etcd.snapshots[-1]

    def time_to_live(self, lease_id: int, **options: object) -> LeaseStatus:
        return LeaseStatus(1, 1) if lease_id in self.etcd.leases else LeaseStatus(-1, 0)

    def watch(self, prefix: str) -> ModelWatch:
        self.current = ModelWatch(self)
        return self.current
