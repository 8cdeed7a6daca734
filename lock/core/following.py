"""The queues that a session follows: watched, listed, audited and left."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from lock.core.endings import Endings
from lock.core.grants import Grants
from lock.core.messages import Follow, ListQueue, Outbox, Unfollow
from lock.core.queue import Queue, Stage, Ticket, pause
from lock.core.revisions import Revisions
from lock.errors import AdmissionConflict, EtcdDenied, EtcdError, EtcdUnavailable, LockError
from lock.model import Event, Snapshot

_TICK_S = 1.0  # between two looks at the queues that are followed


@dataclass(eq=False)
class Following:
    """The views of the queues in which tickets wait."""

    idle_s: ClassVar[float] = 5.0  # how long a queue is followed after its last waiter, for the next one is often soon

    _outbox: Outbox
    _revisions: Revisions
    _grants: Grants
    _endings: Endings
    due: float  # when `look` has to be called again
    followed: dict[str, Queue] = field(default_factory=dict, init=False)  # by prefix

    def clear(self) -> None:
        self._outbox.commands += map(Unfollow, self.followed)
        self.followed.clear()

    def restored(self, now: float) -> None:
        for queue in self.followed.values():
            if queue.is_watched:
                queue.list_at = now
        self.due = now

    def failed(self, request: ListQueue, error: EtcdError, now: float) -> None:
        """It is listed again, unless etcd does not let this user."""
        queue = self.followed.get(request.prefix)
        if queue is None:
            return
        queue.trouble = str(error)
        if not isinstance(error, EtcdUnavailable):
            self._deny(queue, error, now)
        elif queue.is_watched:
            queue.failures += 1
            queue.list_at = now + pause(queue.failures)
            self.due = min(self.due, queue.list_at)
            self._outbox.is_early = True

    def handle_event(self, prefix: str, update: list[Event] | EtcdError, now: float) -> None:
        """Of the watch of a prefix: changes; none when etcd begins to watch; or why it does not any more."""
        queue = self.followed.get(prefix)
        if queue is None:
            return
        if isinstance(update, EtcdDenied):
            self._deny(queue, update, now)
        elif isinstance(update, EtcdError):
            self._break(queue, str(update), now)
        elif not update:
            queue.watching(now)
            self.due = min(self.due, now)
            self._outbox.is_early = True
        else:
            queue.apply(update)
            self._settle(queue, [queue.tickets[kv.key] for _, kv in update if kv.key in queue.tickets], now)

    def join(self, queue: Queue, now: float) -> None:
        """Follow the queue, in which there is a ticket, from now on."""
        assert self._endings.queues.get(queue.prefix) is queue
        if queue.view is None:
            queue.position = None  # whoever waits there is told by the view
            self.followed[queue.prefix] = queue
            queue.follow(now)
            self._outbox.commands.append(Follow(queue.prefix))

    def look(self, now: float) -> None:
        """List the queues that have to be, watch anew, then to be listed, or leave others."""
        self.due = now + _TICK_S
        for queue in list(self.followed.values()):
            if now >= queue.list_at:
                assert queue.view is not None
                queue.list_at, known = math.inf, max(self._revisions.highest, queue.view.revision)
                self._outbox.commands.append(ListQueue(queue.prefix, known, queue.epoch))
            self.due = min(self.due, queue.list_at)
            if queue.waits():
                queue.used_at = now
                if queue.is_listed and now - queue.audited_at >= queue.audit_in():
                    self._break(queue, None, now)  # its watch may be silent
                    self._outbox.commands.append(Follow(queue.prefix))
            elif now - queue.used_at > self.idle_s:
                self.unfollow(queue)

    def answered(self, request: ListQueue, snapshot: Snapshot, now: float) -> None:
        queue = self.followed.get(request.prefix)
        if queue is None or not queue.is_watched or queue.epoch is not request.epoch:
            return  # it was asked for before the watch that it should follow
        self._revisions.observe(snapshot.revision, request.known, now)
        queue.list_at = math.inf
        taken, tickets = queue.take(snapshot, request.known, now), list(queue.tickets.values())
        assert queue.view is not None
        self._grants.advance(queue)
        # Asked of the list alone: a view whose watch has left out a DELETE shows keys that are gone.
        overtaken = [
            ticket for ticket in tickets
            if taken and ticket.stage is Stage.HELD and ticket.granted_at <= snapshot.revision
            and queue.shows(ticket) and not queue.view.admits(ticket.rule, ticket.key)
        ]  # fmt: skip
        queue.catch_up()
        self._keys_deleted(overtaken, now)
        self._settle(queue, tickets, now)

    def _settle(self, queue: Queue, tickets: Iterable[Ticket], now: float) -> None:
        """The view has changed: grant, fail what is gone of these tickets, and refuse what cannot wait."""
        self._grants.advance(queue)
        queue.changed(now)
        self._keys_deleted([ticket for ticket in tickets if queue.lacks(ticket)], now)
        assert queue.view is not None
        for rule, conflict in queue.view.conflicts().items():
            there = [t for t in queue.tickets.values() if t.rule == rule and queue.view.create_revision(t.key)]
            for ticket in there:
                self._endings.cancel(ticket, AdmissionConflict(conflict), now)

    def _deny(self, queue: Queue, error: LockError, now: float) -> None:
        """etcd does not let this user see the queue, so nothing can wait in it."""
        for ticket in list(queue.tickets.values()):
            self._endings.cancel(ticket, type(error)(str(error)), now)
        self._break(queue, str(error), now)
        self.unfollow(queue)

    def _break(self, queue: Queue, trouble: str | None, now: float) -> None:
        queue.broken(trouble)
        queue.changed(now)

    def unfollow(self, queue: Queue) -> None:
        self.followed.pop(queue.prefix, None)
        queue.view = None
        self._outbox.commands.append(Unfollow(queue.prefix))
        self._endings.forget(queue)

    def _keys_deleted(self, tickets: Iterable[Ticket], now: float) -> None:
        for ticket in tickets:
            self._endings.key_deleted(ticket, now)
