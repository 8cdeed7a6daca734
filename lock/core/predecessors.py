"""Waits by the predecessor: the only ticket of its session in an exclusive queue watches the key before its own.

That key is watched, and read once etcd watches it, unless etcd has made no step in between. What the watch tells is a
reason to read, and so is time; a read alone grants, or names the key to watch: docs/lock-theory.md says why.

The read is a step of the acquisition, so whoever waits sends it, when it is woken, or when it is time.

Error handling: whatever is in doubt is read again.
"""

from dataclasses import dataclass

from lock.core.endings import Endings
from lock.core.grants import Grants
from lock.core.messages import FindPosition, FollowKey, Outbox, PositionFound
from lock.core.queue import Position, Ticket, pause
from lock.core.revisions import Revisions
from lock.errors import EtcdDenied, EtcdError, EtcdUnavailable
from lock.model import Event, KeyValue


@dataclass(eq=False)
class Predecessors:
    """The reads of those that wait so, and what comes of them."""

    _outbox: Outbox
    _revisions: Revisions
    _grants: Grants
    _endings: Endings

    def clear(self) -> None:
        for position in self.current():
            self._endings.end_position(position.ticket)

    def restored(self, now: float) -> None:
        """Nothing counts that was read, or asked for, before."""
        for position in self.current():
            self.take(position.ticket, None, 0, now)
            self._outbox.changes.append(position.ticket)

    def take(self, ticket: Ticket, before: KeyValue | None, revision: int, now: float) -> None:
        """It waits behind the key of this revision, which is watched; None: it is to be read. Stage: QUEUED."""
        queue = ticket.queue
        queue.position = Position(ticket, before, now if before is None else now + queue.audit_s)
        if before is not None:
            self._outbox.commands.append(FollowKey(queue.prefix, before.key, queue.position, revision))

    def handle_event(self, position: Position, update: list[Event] | EtcdError, now: float) -> None:
        """Of the watch of a predecessor: changes; none when etcd begins to watch; or why it does not any more."""
        if not position.is_current:
            return
        if isinstance(update, EtcdDenied):
            self._deny(position, update, now)
        elif isinstance(update, EtcdError):  # etcd tells when it watches again
            position.ticket.queue.trouble = str(update)
        elif not update or any(_is_other(position, kv) for _, kv in update):  # of a deleted key it is created at 0
            position.due = now  # its driver reads
            self._outbox.changes.append(position.ticket)

    def read(self, position: Position, now: float) -> FindPosition:
        """The read that is due, which is not due again unless something is told."""
        position.due = now + position.ticket.queue.audit_s
        return FindPosition(position, self._revisions.highest)

    def answered(self, request: FindPosition, answer: PositionFound, now: float) -> None:
        position, ticket, before = request.position, request.position.ticket, answer.before
        if not position.is_current or self._revisions.observe(answer.revision, request.known, now):
            return  # after a restore it is another position
        position.failures, ticket.queue.trouble = 0, None
        if answer.own is None or answer.own.create_revision != ticket.created:
            self._endings.key_deleted(ticket, now)
        elif before is None:
            self._endings.end_position(ticket)
            self._grants.grant(ticket, ticket.created)
        elif _is_other(position, before):
            self.take(ticket, before, answer.revision, now)

    def failed(self, request: FindPosition, error: EtcdError, now: float) -> None:
        """It is read again, unless etcd does not let this user."""
        position = request.position
        if not position.is_current:
            return
        if isinstance(error, EtcdUnavailable):
            position.ticket.queue.trouble = str(error)
            position.failures += 1
            position.due = min(position.due, now + pause(position.failures))
        else:
            self._deny(position, error, now)

    def current(self) -> list[Position]:
        return [queue.position for queue in self._endings.queues.values() if queue.position is not None]

    def _deny(self, position: Position, error: EtcdError, now: float) -> None:
        """etcd does not let this user see the queue, so nothing can wait in it."""
        self._endings.cancel(position.ticket, type(error)(str(error)), now)


def _is_other(position: Position, kv: KeyValue) -> bool:
    """Whether this is not the key that is watched; its name may be used again."""
    before = position.before
    return before is None or (before.key, before.create_revision) != (kv.key, kv.create_revision)
