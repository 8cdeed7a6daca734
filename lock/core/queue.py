"""One name in this process: its tickets, the key names that they use, and the view of its queue once it is followed."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from lock.core.admission import Admission
from lock.core.view import QueueView
from lock.errors import LockCancelled, LockError

if TYPE_CHECKING:
    import threading

    from lock.core.cohort import Cohort
    from lock.model import Event, KeyValue, Snapshot


class Stage(Enum):
    """How far a ticket has come."""

    WRITING = "no write of its key was answered"
    QUEUED = "its key stands in the queue"
    HELD = "its turn has come"
    LEAVING = "its key is to be deleted"
    GONE = "its key is deleted, or was never written"


WAITING = (Stage.WRITING, Stage.QUEUED)
OVER = (Stage.LEAVING, Stage.GONE)


@dataclass(slots=True, eq=False)
class Ticket:
    """One place in a queue, from before its key is written until it is deleted.

    Key names are used again, so a key is this ticket's only with its create revision.

    Attributes:
        key: its name in etcd.
        floor: what happened to the key up to this revision is none of the ticket's business.
        owner: who acquires: a weak reference to a thread or task, or a cohort; `where` in the program.
        created: the key's create revision, as soon as it is known; the fencing token once it is held.
        granted_at: the revision that was known when its turn came; an older list does not count against it.
        failure: why it waits or holds no more.
        is_writing: whether a write is under way.
        in_doubt: whether a write was not answered: it may arrive late, so the key's name is never used again.
        may_exist: whether its key was or may have been written.
        is_fence: whether a transaction may rely on the key, so no other may hold before it is deleted.
        deletion_in_doubt: whether a deletion was not answered, so that the next one may find nothing.
        is_unattended: whether nobody waits for its deletion, so a key that was gone before is logged.
        was_there: whether the deletion has found the key.
        expires: when its hold is given up.
        waiter: tells what waits for it or was not told of its turn yet; where that is None, the ticket is left.
        wake: called, by the driver and without any lock, when the stage or the failure has changed.
        event: set by the driver when it is lost; `listeners` are called.
    """

    queue: Queue
    slot: int
    key: str
    rule: Admission
    floor: int
    owner: object
    where: str = ""
    stage: Stage = Stage.WRITING
    created: int | None = None
    granted_at: int = 0
    failure: LockError | None = None
    is_writing: bool = False
    in_doubt: bool = False
    may_exist: bool = False
    is_fence: bool = False
    deletion_in_doubt: bool = False
    is_unattended: bool = False
    was_there: bool = True
    expires: float = math.inf
    waiter: Callable[[], object] | None = None
    wake: Callable[[], object] | None = None
    event: threading.Event | None = None
    listeners: list[Callable[[], object]] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether what it held or waited for is gone; a wait that was cancelled is not a loss."""
        return self.failure is not None and not isinstance(self.failure, LockCancelled)

    @property
    def is_gone(self) -> bool:
        """Whether its key is deleted, or was never written."""
        return self.stage is Stage.GONE

    def again(self) -> LockError | None:
        """The failure as a new exception, for each thread that raises it."""
        return None if self.failure is None else type(self.failure)(str(self.failure))


class Queue:
    """The tickets of one name by key, the names of keys that are free, and what is known of the queue.

    Attributes:
        tickets: those of this session, by key.
        view: the queue as etcd's lists and events tell it; None while it is not followed.
        is_watched: whether etcd watches it; is_listed: whether it was listed since, so that the view knows all.
        wants_list: whether it has to be listed.
        epoch: stands for the watch it is followed by; a list that was asked for under another one is ignored.
        trouble: why the view may be out of date.
        used_at: when a ticket last waited in it.
        keeper: keeps a hold of it that lingers.
    """

    __slots__ = (
        "_audit", "_free", "_missed", "_next", "asked_at", "audited_at", "epoch", "failures", "is_listed",
        "is_watched", "keeper", "late", "prefix", "tickets", "trouble", "used_at", "view", "wants_list",
    )  # fmt: skip

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.tickets: dict[str, Ticket] = {}
        self._free: list[int] = []
        self._next = 0
        self.view: QueueView | None = None
        self.trouble: str | None = None
        self.keeper: Cohort | None = None
        self.used_at = self.audited_at = 0.0

    # Names of keys

    def take_slot(self, above: int = 0) -> int:
        """The lowest number above this one that no key uses; those up to it are never taken again."""
        while self._free:
            slot = heapq.heappop(self._free)
            if slot > above:
                return slot
        self._next = max(self._next, above) + 1
        return self._next

    def put_back(self, slots: Iterable[int]) -> None:
        """Numbers that were taken and not used."""
        for slot in slots:
            heapq.heappush(self._free, slot)

    def give_back(self, ticket: Ticket) -> None:
        """The ticket's key is deleted, or was never written; the core knows whether a write of it is in doubt."""
        self.tickets.pop(ticket.key, None)
        heapq.heappush(self._free, ticket.slot)

    # The view: nothing here changes a ticket

    def follow(self, now: float) -> None:
        """Begin to follow it. A key that is being deleted may have been handed on already, so it counts no more."""
        passed_on = [each for each in self.tickets.values() if each.stage is Stage.LEAVING and not each.is_fence]
        self.view = QueueView({each.key: each.created for each in passed_on if each.created is not None})
        for ticket in self.tickets.values():
            self.view.follow(ticket.rule)
        self.is_watched = self.is_listed = self.wants_list = self._audit = False
        self.late: list[Event] = []
        self._missed: set[str] = set()
        self.epoch = object()  # no number: a queue that is left and followed anew takes no list of before
        self.used_at = self.audited_at = now
        self.asked_at = -math.inf
        self.failures = 0

    def watching(self) -> None:
        """etcd watches from now on, so it is listed; events come after the list, even if they are told before."""
        self.is_watched, self.is_listed, self.wants_list, self._audit = True, False, True, False
        self.epoch = object()
        self.late.clear()

    def broken(self) -> None:
        """Events may be missed until it is watched and listed again; the view as it is stays true."""
        self.is_watched = self.is_listed = self.wants_list = False
        self.late.clear()

    def audit(self, now: float) -> None:
        self.wants_list = self._audit = True
        self.audited_at = now

    def take(self, snapshot: Snapshot, known: int, now: float) -> bool:
        """Take a list that was asked for when this revision was known; whether the view has changed."""
        view = self.view
        assert view is not None
        before = {kv.key: kv.create_revision for kv in view.in_order()}
        taken = view.replace(snapshot, known=known)
        self.trouble, self.failures, self.audited_at = None, 0, now
        if self._audit:
            self._audit = False
            there = {kv.key: kv.create_revision for kv in view.in_order()}
            self._missed = {key for key, created in before.items() if there.get(key) != created}
        return taken

    def catch_up(self) -> None:
        """After a list: take the events that came before it."""
        assert self.view is not None
        if not self.is_listed:
            self.is_listed = True
            self.view.apply(self.late)
            self.late = []

    def apply(self, events: list[Event]) -> bool:
        """Take events; whether they were."""
        assert self.view is not None
        if not self.is_listed:
            self.late += events
            return False
        for event in events if self._missed else ():
            self._missed.discard(event.kv.key)
        self.view.apply(events)
        return True

    def has_missed(self) -> bool:
        """Whether an audit has found a deletion that the watch has not told since, which is told once."""
        missed, self._missed = bool(self._missed), set()
        return missed

    def shows(self, ticket: Ticket) -> bool:
        """Whether the view has the ticket's very key."""
        view = self.view
        return view is not None and ticket.created is not None and view.create_revision(ticket.key) == ticket.created

    def lacks(self, ticket: Ticket) -> bool:
        """Whether its key was there before the view's revision and is not in the view, or not that key any more."""
        view, created = self.view, ticket.created
        return view is not None and created is not None and created <= view.revision and not self.shows(ticket)

    def is_settled(self, ticket: Ticket) -> bool:
        """Whether the view is listed and not older than the ticket's key: then it knows all that stand before it."""
        view, created = self.view, ticket.created
        return view is not None and self.is_listed and created is not None and view.revision >= created

    def is_alone(self, ticket: Ticket) -> bool:
        """Whether the ticket holds, and no other key will stand in the queue without being told of."""
        view = self.view
        if view is None or not self.is_listed or ticket.stage is not Stage.HELD:
            return False
        if not view.has_no_other(ticket.key):
            return False
        return len(self.tickets) == 1 or all(each is ticket or each.stage in OVER for each in self.tickets.values())

    def holder(self) -> KeyValue | None:
        """The key at the head, as far as is known."""
        return None if self.view is None else self.view.head()

    def waits(self) -> bool:
        """Whether a ticket of this session waits, or lingers."""
        return self.keeper is not None or any(ticket.stage in WAITING for ticket in self.tickets.values())


class KeyNames:
    """Names keys for the tickets of one lease: ``NAME/[FOLDER]LEASE-NUMBER``, the lowest number that is free."""

    def __init__(self, lease_id: int) -> None:
        self._lease_id = lease_id
        self._burnt: dict[str, int] = {}  # the highest number in doubt by folder, which several names may share

    def take(self, queue: Queue, folder: str, taken: Container[str]) -> tuple[int, str]:
        """A number and a key for a new ticket: the first that is not `taken`, above all in doubt there.

        Keys of a name below, and writes of them that are still to arrive, may stand in our folder.
        """
        path = f"{queue.prefix}{folder}"
        passed: list[int] = []
        while True:
            slot = queue.take_slot(self._burnt.get(path, 0))
            key = f"{path}{self._lease_id:x}-{slot:x}"
            if key not in taken:
                if passed:
                    queue.put_back(passed)
                return slot, key
            passed.append(slot)

    def burn(self, ticket: Ticket) -> None:
        """Its key may still be written, so no ticket of any name is given it again."""
        path = ticket.key[: ticket.key.rindex("/") + 1]
        self._burnt[path] = max(self._burnt.get(path, 0), ticket.slot)
