"""A process of the model etcd: the library's own queue, acquisitions and holds, and a janitor that is told to work."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

from lock.errors import EtcdUnavailable, LeaseNotFound, LockError, SessionLost
from lock.model import Event, KeyValue, Snapshot
from lock.queue.admission import Admission
from lock.queue.ticket import Ticket
from lock.queue.wait_queue import WaitQueue
from lock.recipes.acquisition import ALONE, Acquisition, Terms
from lock.recipes.hold import Hold
from lock.recipes.read_write import ReadLock, WriteHold
from lock.runtime.execution import Execution
from lock.runtime.lost_event import CallbackThread
from tests.support.model_etcd import PATIENCE_S, PREFIX, ModelClient, ModelEtcd


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
        self.janitor = self
        self._serial = itertools.count(1)
        self.queue = WaitQueue(self.client, PREFIX)  # type: ignore[arg-type]
        self.settle()

    # What `lock.session.session.Session` and its janitor are for an acquisition and a hold

    def new_ticket(self, prefix: str, rule: Admission) -> Ticket:
        self.tickets.append(Ticket(f"{prefix}{self.lease_id:x}-{next(self._serial):x}", CallbackThread(), rule))
        return self.tickets[-1]

    def add_ticket(self, prefix: str, ticket: Ticket) -> WaitQueue:
        self.ensure()
        self.queue.add(ticket)
        return self.queue

    def ensure(self) -> None:
        if self.failure is not None:
            raise SessionLost(str(self.failure))

    def remaining(self) -> float:
        return 0.0 if self.failure else 1.0

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
        readers = ReadLock(self, "shop")  # type: ignore[arg-type]
        make = partial(WriteHold, readers=readers) if terms.declared.kind == "write" else Hold
        return Acquisition(self, "shop", PREFIX, make, terms=terms)  # type: ignore[arg-type]

    def settle(self) -> None:
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

    def heal(self) -> None:
        """The network works, and an audit has found what was lost."""
        self.follow()
        self.audit(None)
        self.follow()
        if told := self.untold():
            self.tell(told[-1][0], [event for _, events in told for event in events])

    def tell_again(self, age: int, number: int) -> None:
        """Its watch tells a few revisions that it has told before."""
        watch = self.client.current
        assert watch.position is not None
        told = [events for revision, events in self.etcd.history if revision <= watch.position][-1 - age :][:number]
        watch.tell([event for events in told for event in events])

    def late_call_arrives(self) -> None:
        """The oldest one, perhaps when its lease is gone."""
        with contextlib.suppress(LeaseNotFound):
            self.client.late.pop(0)()

    def lose(self) -> None:
        """The local deadline is over, or etcd says that the lease is gone."""
        self.failure = self.failure or SessionLost("lost")
        self.lost.set()
        self.stop()

    def stop(self) -> None:
        self.queue.fail_all(lambda: SessionLost("lost"))
        self.queue.close()
        self.client.closing.clear()
        self.queue.join(PATIENCE_S)
        self.pending.clear()
