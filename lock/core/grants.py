"""What makes a ticket a hold.

A ticket holds when (1) etcd has counted no other key after its own was written, for later keys have higher revisions;
(2) the view of the queue admits its key; or (3) the list of the step that has written its key does. The proof for (2)
and (3) stands in `lock.core.view`. A hold that ends is handed to the next ticket of this session before its key is
deleted, where the view has been listed and shows that key: while it is there, no other process has its turn.
"""

from dataclasses import dataclass

from lock.core.admission import Frontier
from lock.core.messages import Outbox, Written
from lock.core.queue import WAITING, Queue, Stage, Ticket
from lock.core.revisions import Revisions
from lock.errors import AdmissionConflict, LockError


@dataclass(eq=False)
class Grants:
    """Grants tickets their turn; each only once, whatever is told late or twice."""

    _outbox: Outbox
    _revisions: Revisions

    def place(self, ticket: Ticket, answer: Written) -> LockError | None:
        """Its key stands in the queue, by this answer to its write; why it cannot wait there.

        Stage: QUEUED, since this answer.
        """
        if answer.keys is not None:  # a list of the step that has written its key, or found it
            conflict = ticket.rule.conflict(answer.keys[0])
            if conflict is not None:
                return AdmissionConflict(conflict)
        if answer.number == 1 or ticket.key in Frontier(ticket.rule, answer.keys or ()).advance():
            self.grant(ticket, ticket.created)
        return None

    def advance(self, queue: Queue) -> list[str]:
        """Grant the tickets of those who hold from now on by the view; all keys that do."""
        view = queue.view
        assert view is not None
        admitted = view.advance()
        for rule, key in admitted:
            ticket = queue.tickets.get(key)
            if ticket is not None and ticket.rule == rule:
                self.grant(ticket, view.create_revision(key))
        return [key for _, key in admitted]

    def hand_over(self, ticket: Ticket) -> bool:
        """A hold or a wait is over, stage RELEASING: let the next ones of this session hold.

        Whether all that may hold now are ours, so that no other process waits. Where the view does not show its key,
        nothing is done.
        """
        queue = ticket.queue
        if not queue.shows(ticket):
            return False
        assert queue.view is not None
        assert ticket.created is not None
        queue.view.discard(ticket.key, ticket.created)
        admitted = self.advance(queue)
        return bool(admitted) and all(key in queue.tickets for key in admitted)

    def grant(self, ticket: Ticket, token: int | None) -> None:
        """Its turn has come, if the key of this create revision is its own.

        Stages: WRITING, QUEUED; else nothing is done.
        """
        if ticket.stage not in WAITING:
            return
        assert token is not None
        if token <= ticket.floor or ticket.created not in (None, token):
            return
        ticket.created, ticket.granted_at = token, self._revisions.highest
        ticket.stage = Stage.HELD
        self._outbox.changes.append(ticket)
