"""The tickets that wait by their predecessor: one in a queue at most, for which nothing but one key is watched."""

from lock.core.messages import FollowKey, Outbox, Unfollow
from lock.core.queue import Position, Ticket
from lock.model import KeyValue


class Positions:
    """Their positions by prefix; a queue that is followed has none."""

    audit_s = 5.0  # how often what a watch tells is compared with etcd while somebody waits

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.by_prefix: dict[str, Position] = {}

    def take(self, ticket: Ticket, before: KeyValue | None, revision: int, now: float) -> None:
        """It waits behind the key of this revision, which is watched; None: it is to be read. Stage: QUEUED."""
        prefix = ticket.queue.prefix
        position = self.by_prefix[prefix] = Position(ticket, before, now if before is None else now + self.audit_s)
        if before is not None:
            self._outbox.commands.append(FollowKey(prefix, before.key, position, revision))

    def end(self, ticket: Ticket) -> None:
        """It waits so no more. Any stage."""
        if self.of(ticket) is not None:
            del self.by_prefix[ticket.queue.prefix]
            self._outbox.commands.append(Unfollow(ticket.queue.prefix))

    def of(self, ticket: Ticket) -> Position | None:
        position = self.by_prefix.get(ticket.queue.prefix)
        return position if position is not None and position.ticket is ticket else None

    def is_current(self, position: Position) -> bool:
        """Whether somebody waits there; what is told of others is no news."""
        return self.by_prefix.get(position.ticket.queue.prefix) is position
