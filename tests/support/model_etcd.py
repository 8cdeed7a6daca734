"""A small etcd in memory, and processes that use it through a network that loses, delays and repeats.

Only for the state machine: everything else runs on a real etcd. What is modelled is what etcd promises (documentation,
"KV API guarantees"): one order of revisions, watches that tell it in order and leave out no PUT; and what it has failed
to promise: DELETE events that are never told (etcd issues 17529, 18089).
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import TypeVar

from lock.errors import EtcdError, EtcdUnavailable, LeaseNotFound, LockError, SessionLost
from lock.model import Declaration, Event, KeyValue, LeaseStatus, Snapshot, identity
from lock.queue.admission import Admission
from lock.queue.ticket import Ticket
from lock.queue.wait_queue import WaitQueue
from lock.recipes.acquisition import ALONE, Acquisition, Terms
from lock.recipes.hold import Hold
from lock.recipes.read_write import WriteHold
from lock.runtime.execution import Execution
from lock.runtime.lost_event import CallbackThread

T = TypeVar("T")

PREFIX = "shop/"
PATIENCE_S = 10.0


class Fate(Enum):
    """What becomes of a call."""

    ANSWERED = "it is done, and the answer arrives"
    LOST_BEFORE = "it never arrives"
    LOST_AFTER = "it is done, and the answer is lost"
    LATE = "it arrives some time after it was given up"
    REPEATED = "it is done, the answer is lost, and another endpoint answers"
    DUPLICATED = "another endpoint answers, and the first one does it some time later"


class ModelEtcd:
    """Keys, leases, and the history of all changes."""

    def __init__(self) -> None:
        self.revision = 1
        self.keys: dict[str, KeyValue] = {}
        self.leases: set[int] = set()
        self.history: list[tuple[int, list[Event]]] = []
        self.snapshots = [Snapshot(1, [])]
        self._lease_ids = itertools.count(1)

    def grant(self) -> int:
        """A new lease."""
        lease_id = next(self._lease_ids)
        self.leases.add(lease_id)
        return lease_id

    def create(self, key: str, value: bytes, lease_id: int) -> KeyValue:
        """Write it unless it exists; as it stands."""
        if lease_id not in self.leases:
            raise LeaseNotFound("gone")
        if key not in self.keys:
            kv = self.keys[key] = KeyValue(key, value, self.revision + 1, self.revision + 1, lease_id)
            self._changed([Event(False, kv)])
        return self.keys[key]

    def delete(self, key: str, create_revision: int | None) -> bool:
        """Delete it if it was created then; whether it was there."""
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
        """Holder first, then the waiters."""
        return sorted(self.keys.values(), key=lambda kv: kv.create_revision)

    def has(self, key: str, create_revision: int) -> bool:
        """Whether it is there, and is the one that was created then."""
        return key in self.keys and self.keys[key].create_revision == create_revision

    def was_created(self, key: str, revision: int) -> bool:
        """Whether it was ever created at that revision."""
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
        self.requests = SimpleNamespace(
            create=partial(partial, self.create),
            replace=partial(partial, self.replace),
            time_to_live=partial(partial, self.time_to_live),
        )
        self.current = ModelWatch(self)

    def check_process(self) -> None:
        """No process forks here."""

    def forked(self) -> bool:
        """No process forks here."""
        return False

    def create(
        self, key: str, value: bytes, lease_id: int, *, unanswered: Callable[[], object], **options: object
    ) -> KeyValue:
        """As `lock.etcd.client.Client.create`."""
        kv = self._sent(lambda: self.etcd.create(key, value, lease_id), unanswered)
        if self.meanwhile is not None:
            self.meanwhile(key)
        return kv

    async def ask(
        self, execution: Execution, call: Callable[..., T], *, unanswered: object = None, **options: object
    ) -> T:
        """As `lock.etcd.client.Client.ask`: here a call is what is to be called."""
        return call(unanswered=unanswered)

    def delete(
        self, key: str, create_revision: int | None, *, unanswered: Callable[[], object], **options: object
    ) -> bool:
        """As `lock.etcd.client.Client.delete`."""
        return self._sent(lambda: self.etcd.delete(key, create_revision), unanswered)

    def _sent(self, call: Callable[[], T], unanswered: Callable[[], object]) -> T:
        """What becomes of a call that is sent."""
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

    def replace(self, kv: KeyValue, value: bytes, **options: object) -> KeyValue | None:
        """As `lock.etcd.requests.Requests.replace`."""
        if kv.key in self.etcd.keys and self.etcd.keys[kv.key].mod_revision == kv.mod_revision:
            self.etcd.overwrite(kv.key, value)
        return self.etcd.keys.get(kv.key)

    def get_prefix(self, prefix: str, *, timeout: float | None = None) -> Snapshot:
        """As `lock.etcd.client.Client.get_prefix`; for an audit, perhaps one that was under way for long."""
        if threading.get_ident() == self.owner and self.stale is not None:
            return self.stale
        if self.list_fails:
            raise EtcdUnavailable("lost")
        return self.etcd.snapshots[-1]

    def time_to_live(self, lease_id: int, **options: object) -> LeaseStatus:
        """As `lock.etcd.client.Client.time_to_live`."""
        return LeaseStatus(1, 1) if lease_id in self.etcd.leases else LeaseStatus(-1, 0)

    def watch(self, prefix: str) -> ModelWatch:
        """As `lock.etcd.client.Client.watch`."""
        self.current = ModelWatch(self)
        return self.current


def admitted(rule: Admission, queue: list[KeyValue]) -> list[str]:
    """The keys of a queue that hold by a rule, found the simple way: in order, each asked about those before it."""
    kinds = [rule.kind(kv) for kv in queue]
    for place, kind in enumerate(kinds):
        ahead = Counter(kinds[:place])
        if place and (kind is None or None in ahead or not rule.admits(kind, ahead)):  # type: ignore[arg-type]
            return [kv.key for kv in queue[:place]]
    return [kv.key for kv in queue]


class Process:
    """A process with a session and one wait queue, which run the library's own code; and its janitor's list."""

    def __init__(self, etcd: ModelEtcd) -> None:
        self.etcd = etcd
        self.client = ModelClient(etcd)
        self.lease_id = etcd.grant()
        self.name = f"process {self.lease_id}"
        self.pending: list[tuple[str, int | None]] = []
        self.tickets: list[Ticket] = []
        self.waits: list[Acquisition[Hold]] = []
        self.holds: list[Hold] = []
        self.failure: LockError | None = None
        self.lost = threading.Event()
        self.given_up: set[tuple[str, int]] = set()  # key and token of holds that are over
        self.deaf: set[str] = set()  # keys whose DELETE was never told since the last list
        self.lease = SimpleNamespace(verify=lambda: 1.0, gone=self.lose, check=self.ensure, renew_soon=lambda: None)
        self._serial = itertools.count(1)
        self.queue = WaitQueue(self.client, PREFIX)  # type: ignore[arg-type]
        self.settle()

    # What `lock.session.session.Session` is for an acquisition and a hold

    def new_ticket(self, prefix: str, rule: Admission) -> Ticket:
        """A ticket with its own key."""
        self.tickets.append(Ticket(f"{prefix}{self.lease_id:x}-{next(self._serial):x}", CallbackThread(), rule))
        return self.tickets[-1]

    def add_ticket(self, prefix: str, ticket: Ticket) -> WaitQueue:
        """The one queue."""
        self.ensure()
        self.queue.add(ticket)
        return self.queue

    def ensure(self) -> None:
        """Raise if the session is lost."""
        if self.failure is not None:
            raise SessionLost(str(self.failure))

    def remaining(self) -> float:
        """Seconds until the session may be lost."""
        return 0.0 if self.failure else 1.0

    def identity(self, declared: Declaration) -> bytes:
        """What stands in its keys."""
        return identity(self.name, declared)

    async def delete(
        self, execution: Execution, key: str, create_revision: int | None, *, may_wait: bool = False, **options: object
    ) -> bool:
        """Have the janitor delete a key; company comes when it next goes over its list."""
        if may_wait:
            self.pending.append((key, create_revision))
            return True
        try:
            in_doubt = threading.Event()
            return self.client.delete(key, create_revision, unanswered=in_doubt.set) or in_doubt.is_set()
        except EtcdUnavailable:
            self.pending.append((key, create_revision))
            raise
        finally:
            if create_revision is None:
                self.pending.append((key, None))

    def delete_later(
        self, key: str, create_revision: int | None = None, *, first: Callable[[], object] | None = None
    ) -> None:
        """Leave a key to the janitor."""
        if first is not None:
            first()
        self.pending.append((key, create_revision))

    # What is true of it

    def in_order(self) -> list[KeyValue]:
        """Holders and waiters, as its own threads may see it: a hold of theirs that is over is in no way."""
        return [kv for kv in self.etcd.in_order() if (kv.key, kv.create_revision) not in self.given_up]

    def admitted(self, rule: Admission) -> list[str]:
        """Whose turn it is by this rule, for its own threads."""
        return admitted(rule, self.in_order())

    # What happens to it

    def acquisition(self, terms: Terms = ALONE) -> Acquisition[Hold]:
        """One attempt, not begun."""
        make = WriteHold if terms.declared.kind == "write" else Hold
        return Acquisition(self, "shop", PREFIX, make, terms=terms)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Wait until its follower waits."""
        assert self.client.idle.acquire(timeout=PATIENCE_S), "the follower hangs"

    def open_watch(self) -> None:
        """etcd begins to watch; the list comes later."""
        self.client.current.position = self.etcd.revision

    def list_keys(self, *, fails: bool = False) -> None:
        """Now the list arrives, or fails, and everything begins anew."""
        watch = self.client.current
        self.client.list_fails = fails
        watch.tell([])
        self.client.list_fails = False
        watch.listed = not fails
        if not fails:
            self.deaf.clear()

    def follow(self) -> None:
        """Watch and list, if it does not yet."""
        if self.client.current.position is None:
            self.open_watch()
        if not self.client.current.listed:
            self.list_keys()

    def is_current(self) -> bool:
        """Whether it has been told everything."""
        watch = self.client.current
        return watch.listed and not self.deaf and not self.untold()

    def untold(self) -> list[tuple[int, list[Event]]]:
        """The revisions that its watch has still to tell."""
        position = self.client.current.position
        assert position is not None
        return [(revision, events) for revision, events in self.etcd.history if revision > position]

    def tell(self, revision: int, events: list[Event], *, dropped: bool = False) -> None:
        """Its watch tells what has happened up to `revision`; if dropped, it keeps the DELETEs to itself."""
        self.client.current.position = revision
        for deleted, kv in events:
            (self.deaf.add if deleted and dropped else self.deaf.discard)(kv.key)
        self.client.current.tell([event for event in events if not (dropped and event.deleted)])

    def audit(self, snapshot: Snapshot | None) -> None:
        """A waiting thread checks the view against a list, which may have been under way for long."""
        self.client.stale = snapshot
        self.queue.audit(timeout=1.0)
        self.client.stale = None
        for _ in self.client.closing:
            self.settle()
        self.client.closing.clear()
        if snapshot is None:
            self.deaf.clear()

    def sweep_up(self) -> None:
        """The janitor goes once over its list; what is in doubt stays on it."""
        pending, self.pending = self.pending, []
        for key, create_revision in pending:
            self.etcd.delete(key, create_revision)
            if create_revision is None:
                self.pending.append((key, None))

    def lose(self) -> None:
        """The local deadline is over, or etcd says that the lease is gone."""
        self.failure = self.failure or SessionLost("lost")
        self.lost.set()
        self.stop()

    def stop(self) -> None:
        """Follow no more."""
        self.queue.close(lambda: SessionLost("lost"))
        self.client.closing.clear()
        self.queue.join(PATIENCE_S)
        self.pending.clear()
