"""One name in this process: its tickets, the key names that they use, and the view of its queue once it is followed."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from lock.core.admission import Admission
from lock.core.view import QueueView
from lock.errors import LockCancelled, LockError

if TYPE_CHECKING:
    from lock.model import Event, KeyValue, Snapshot
    from lock.runtime.callbacks import Loss


class Stage(Enum):
    """How far a ticket has come."""

    WRITING = "no write of its key was answered"
    QUEUED = "its key stands in the queue"
    HELD = "its turn has come"
    RELEASING = "its key is to be deleted"
    RELEASED = "its key is deleted, or was never written"


WAITING = (Stage.WRITING, Stage.QUEUED)
OVER = (Stage.RELEASING, Stage.RELEASED)
_RETRY_S = (0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(slots=True, eq=False)
class Ticket:
    """One place in a queue, from before its key is written until it is deleted.

    Key names are used again, so a key is this ticket's only with its create revision.
    """

    queue: Queue
    slot: int
    key: str
    rule: Admission
    floor: int  # what happened to the key up to this revision is none of the ticket's business
    owner: object  # who acquires: a weak reference to a thread or task, or a cohort
    where: str = ""  # in the program
    value: bytes = b""  # of the key
    stage: Stage = Stage.WRITING
    created: int | None = None  # the key's create revision, once it is known; the fencing token once it is held
    granted_at: int = 0  # the revision that was known when its turn came; an older list does not count against it
    failure: LockError | None = None  # why it waits or holds no more
    is_writing: bool = False
    in_doubt: bool = False  # a write was not answered: it may arrive late, so the key's name is never used again
    is_fence: bool = False  # a transaction may rely on the key, so no other may hold before it is deleted
    deletion_in_doubt: bool = False  # a deletion was not answered, so the next one may find nothing
    is_unattended: bool = False  # nobody waits for its deletion, so a key that was gone before is logged
    was_there: bool = True  # the deletion has found the key
    waiter: Callable[[], object] | None = None  # what waits for it, or is to hear of its turn; if None, it is left
    wake: Callable[[], object] | None = None  # called without any lock when the stage or the failure has changed
    loss: Loss | None = None  # to which the driver tells it

    @property
    def is_lost(self) -> bool:
        """Whether what it held or waited for is gone; a wait that was cancelled is not a loss."""
        return self.failure is not None and not isinstance(self.failure, LockCancelled)

    def again(self) -> LockError | None:
        """The failure as a new exception, for each thread that raises it."""
        return None if self.failure is None else type(self.failure)(str(self.failure))


@dataclass(slots=True, eq=False)
class Position:
    """Where a ticket waits, by the key right before its own; another place for each such key.

    So what is told of the watch of another key, or was asked of it, is told from news of this one.
    """

    ticket: Ticket
    before: KeyValue | None  # None until it is read
    due: float  # when it has to be read
    failures: int = 0  # of reads, one after the other

    @property
    def is_current(self) -> bool:
        """Whether the ticket still waits there; what is told of others is no news."""
        return self.ticket.queue.position is self


class Waiter(Protocol):
    """What a driver wakes when it stands in `Outbox.changes`."""

    wake: Callable[[], object] | None


class Observer:
    """What stands beside the core: it subscribes to `Core.observers`, or to those of a queue, which is followed then.

    The core calls nothing else of it.
    """

    def poll(self, now: float) -> float:
        """Do what is due; when to call it again."""
        return math.inf

    def refuse(self, failure: LockError, now: float) -> None:
        """The session waits for no lock any more, and this is why."""

    def lose(self, failure: LockError) -> None:
        """The session is over."""

    def look(self, queue: Queue, now: float) -> None:
        """The queue has changed, or is not watched any more."""


class Queue:
    """The tickets of one name by key, the names of keys that are free, and what is known of the queue.

    While it is followed, `is_watched` says that etcd watches it, `is_listed` that it was listed since, so that the view
    knows all, and `list_at` when it has to be.
    """

    audit_s = 5.0  # how often what a watch tells is compared with etcd while somebody waits

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.tickets: dict[str, Ticket] = {}  # those of this session
        self._free: list[int] = []
        self._next = 0
        self.view: QueueView | None = None  # as etcd's lists and events tell it; None while it is not followed
        self.trouble: str | None = None  # why the view may be out of date
        self.observers: dict[Observer, None] = {}
        self.position: Position | None = None  # of the ticket that waits by its predecessor, while it is not followed

    def position_of(self, ticket: Ticket) -> Position | None:
        return self.position if self.position is not None and self.position.ticket is ticket else None

    # Names of keys

    def take_slot(self, above: int) -> int:
        """The lowest number above this one that no key uses; those up to it are never taken again."""
        while self._free:
            slot = heapq.heappop(self._free)
            if slot > above:
                return slot
        self._next = max(self._next, above) + 1
        return self._next

    def give_back(self, ticket: Ticket) -> None:
        """The ticket's key is deleted, or was never written; the core knows whether a write of it is in doubt."""
        del self.tickets[ticket.key]
        heapq.heappush(self._free, ticket.slot)

    # The view: nothing here changes a ticket

    def follow(self, now: float) -> None:
        """Begin to follow it. A key that is being deleted may have been handed on already, so it counts no more."""
        passed_on = [each for each in self.tickets.values() if each.stage is Stage.RELEASING and not each.is_fence]
        self.view = QueueView({each.key: each.created for each in passed_on})
        for ticket in self.tickets.values():
            self.view.follow(ticket.rule)
        self.is_watched = self.is_listed = False
        self.list_at = math.inf
        self.late: list[Event] = []
        self.used_at = self.audited_at = now  # when a ticket last waited in it, and when it was last audited
        self.failures = 0

    def watching(self, now: float) -> None:
        """etcd watches from now on, so it is listed; events come after the list, even if they are told before."""
        self.is_watched, self.is_listed, self.list_at = True, False, now
        self.epoch = object()  # a list that was asked for under another one is ignored
        self.late.clear()

    def broken(self, trouble: str | None = None) -> None:
        """Events may be missed until it is watched and listed again; the view as it is stays true."""
        self.is_watched = self.is_listed = False
        self.list_at, self.trouble = math.inf, trouble

    def audit_in(self) -> float:
        """Seconds from one audit to the next; more for a long queue, as each session that waits there lists all."""
        assert self.view is not None
        return self.audit_s * (1 + len(self.view) // 100)

    def take(self, snapshot: Snapshot, known: int, now: float) -> bool:
        """Take a list that was asked for when this revision was known; whether the view has changed."""
        assert self.view is not None
        self.trouble, self.failures, self.audited_at = None, 0, now
        return self.view.replace(snapshot, known=known)

    def catch_up(self) -> None:
        """After a list: take the events that came before it."""
        assert self.view is not None
        self.is_listed = True
        self.view.apply(self.late)

    def apply(self, events: list[Event]) -> None:
        """Take events, or keep them until it is listed."""
        assert self.view is not None
        if self.is_listed:
            self.view.apply(events)
        else:
            self.late += events

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
        return view.has_no_other(ticket.key) and (len(self.tickets) == 1 or self._others_are_over(ticket))

    def holder(self) -> KeyValue | None:
        return None if self.view is None else self.view.head()

    def changed(self, now: float) -> None:
        """Have its observers look at it."""
        for observer in list(self.observers):
            observer.look(self, now)

    def is_only(self, ticket: Ticket) -> bool:
        """Whether no other ticket of this session wants the queue, and it is not followed."""
        return self.view is None and (len(self.tickets) == 1 or self._others_are_over(ticket))

    def _others_are_over(self, ticket: Ticket) -> bool:
        return all(each is ticket or each.stage in OVER for each in self.tickets.values())

    def waits(self) -> bool:
        """Whether a ticket of this session waits, or something observes it."""
        return bool(self.observers) or any(ticket.stage in WAITING for ticket in self.tickets.values())


class KeyNames:
    """Names keys for the tickets of one lease: ``NAME/[FOLDER]LEASE-NUMBER``, the lowest number that is free."""

    def __init__(self, lease_id: int) -> None:
        self.lease_id = lease_id
        self.burnt = 0  # the highest number in doubt

    def take(self, queue: Queue, folder: str, taken: Container[str]) -> tuple[int, str]:
        """A number and a key for a new ticket: the first that no name below has taken, above all that are in doubt."""
        while True:
            slot = queue.take_slot(self.burnt)
            key = f"{queue.prefix}{folder}{self.lease_id:x}-{slot:x}"
            if key not in taken:
                return slot, key

    def burn(self, ticket: Ticket) -> None:
        """Its key may still be written, so no ticket of any name is given it again."""
        self.burnt = max(self.burnt, ticket.slot)

    def has_named(self, key: str) -> bool:
        """Whether it is a key of this session's tickets, of now or before."""
        return re.fullmatch(f"{self.lease_id:x}-[0-9a-f]+", key.rpartition("/")[2]) is not None


def pause(failures: int) -> float:
    """How long to wait after so many failures, one after the other."""
    return _RETRY_S[min(failures, len(_RETRY_S)) - 1]
