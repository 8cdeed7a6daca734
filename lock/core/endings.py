"""From a hold, or a wait, to nothing: how tickets end, for whatever reason."""

from dataclasses import dataclass

from lock.core.deletions import Deletions
from lock.core.grants import Grants
from lock.core.messages import Outbox, Renew, Unfollow
from lock.core.queue import OVER, WAITING, KeyNames, Queue, Stage, Ticket
from lock.errors import LockError, LockLost


@dataclass(eq=False)
class Endings:
    """Ends tickets of one session, each only once; they and their queues stand in `tickets` and `queues` until then."""

    _outbox: Outbox
    _grants: Grants
    _deletions: Deletions
    _names: KeyNames
    tickets: dict[str, Ticket]
    queues: dict[str, Queue]

    def leave(self, ticket: Ticket, now: float) -> None:
        """A wait is over, or a hold that is not released by its owner: the key is deleted soon.

        Stages: WRITING, QUEUED, HELD; else nothing is done.
        """
        if ticket.stage in OVER:
            return
        ticket.stage = Stage.RELEASING
        self._outbox.changes.append(ticket)
        self.end_position(ticket)
        if not ticket.is_fence:
            self._grants.hand_over(ticket)
        if not ticket.is_writing:
            self._deletions.add(ticket, now)

    def end_position(self, ticket: Ticket) -> None:
        """It waits by its predecessor no more. Any stage."""
        if ticket.queue.position_of(ticket) is not None:
            ticket.queue.position = None
            self._outbox.commands.append(Unfollow(ticket.queue.prefix))

    def cancel(self, ticket: Ticket, failure: LockError, now: float) -> None:
        """It waits no more. Stages: WRITING, QUEUED; else nothing is done: a hold is never cancelled."""
        if ticket.stage in WAITING:
            self.fail(ticket, failure, now)

    def fail(self, ticket: Ticket, failure: LockError, now: float) -> None:
        """It waits or holds no more, and this is why. Stages: WRITING, QUEUED, HELD."""
        ticket.failure = failure
        self.leave(ticket, now)

    def key_deleted(self, ticket: Ticket, now: float) -> None:
        """Its key was deleted from elsewhere. Stages: WRITING, QUEUED, HELD; else nothing is done."""
        if ticket.stage not in OVER:
            failure = LockLost(f"key {ticket.key!r} was deleted from elsewhere: the lock is not ours any more")
            self.fail(ticket, failure, now)
            self._outbox.commands.append(Renew())  # a key that is gone may mean that the lease is

    def gone(self, ticket: Ticket, *, was_there: bool) -> None:
        """Its key was deleted, or never written. Stage: RELEASING; else nothing is done."""
        if ticket.stage is Stage.RELEASING:
            ticket.was_there = was_there
            self.drop(ticket)

    def give_up_name(self, ticket: Ticket) -> None:
        """Another key of its name was there: an etcd that was restored from a backup has brought it back."""
        failure = LockLost(f"key {ticket.key!r} was there before: was etcd restored from a backup?")
        ticket.failure = ticket.failure or failure
        ticket.in_doubt = True
        self.drop(ticket)

    def drop(self, ticket: Ticket) -> None:
        """Forget it; its key is deleted, was never written, or is the reconciler's."""
        ticket.stage = Stage.RELEASED
        self._outbox.changes.append(ticket)
        del self.tickets[ticket.key]
        ticket.queue.give_back(ticket)
        if ticket.in_doubt:
            self._names.burn(ticket)
        self.forget(ticket.queue)

    def forget(self, queue: Queue) -> None:
        """There may be nothing more to remember of a queue."""
        if not queue.tickets and queue.view is None:
            del self.queues[queue.prefix]
