"""Waits by the predecessor: the only ticket of its session in an exclusive queue watches the key before its own.

That is watched from now on, and read once etcd watches it: so a deletion in between is seen. What the watch tells is a
reason to read, and so is time. A read grants where it shows the ticket's key and none before it, for later keys get
larger create revisions; else it names the key to watch. A DELETE grants nothing: the ticket's own key may be gone, or
its predecessor may have left from the middle of the queue.

Error handling: whatever is in doubt is read again.
"""

import math

from lock.core.endings import Endings
from lock.core.following import pause
from lock.core.grants import Grants
from lock.core.messages import FindPlace, Placed, Unfollow
from lock.core.outbox import Outbox
from lock.core.places import Places
from lock.core.queue import Place
from lock.core.revisions import Revisions
from lock.errors import EtcdDenied, EtcdError, EtcdUnavailable
from lock.model import Event, KeyValue


class Predecessors:
    """Reads the places of those that wait so."""

    def __init__(self, outbox: Outbox, revisions: Revisions, grants: Grants, endings: Endings, places: Places) -> None:
        self._outbox = outbox
        self._revisions = revisions
        self._grants = grants
        self._endings = endings
        self._places = places

    def clear(self) -> None:
        self._outbox.commands += map(Unfollow, self._places.by_prefix)
        self._places.by_prefix.clear()

    def restored(self, now: float) -> None:
        """Nothing counts that was read, or asked for, before."""
        for place in list(self._places.by_prefix.values()):
            self._places.take(place.ticket, None, now)

    def handle_event(self, place: Place, update: list[Event] | EtcdError, now: float) -> None:
        """Of the watch of a predecessor: changes; none when etcd begins to watch; or why it does not any more."""
        if not self._places.is_current(place):
            return
        if isinstance(update, EtcdDenied):
            self._deny(place, update, now)
        elif isinstance(update, EtcdError):  # etcd tells when it watches again
            place.ticket.queue.trouble = str(update)
        elif not update or any(deleted or _is_other(place, kv) for deleted, kv in update):
            place.due, self._outbox.is_early = now, True

    def poll(self, now: float) -> float:
        """Read the places that are due; when to look again, if no answer comes before."""
        due = math.inf
        for place in self._places.by_prefix.values():
            if now >= place.due and not place.is_asked:
                place.is_asked, place.due = True, now + self._places.audit_s
                self._outbox.commands.append(FindPlace(place, self._revisions.highest))
            due = due if place.is_asked else min(due, place.due)
        return due

    def answered(self, request: FindPlace, answer: Placed, now: float) -> None:
        place, ticket, before = request.place, request.place.ticket, answer.before
        if not self._places.is_current(place) or self._revisions.observe(answer.revision, request.known, now):
            return  # after a restore it is another place
        place.is_asked, place.failures, ticket.queue.trouble = False, 0, None
        self._outbox.is_early = True  # it may be due again
        if answer.own is None or answer.own.create_revision != ticket.created:
            self._endings.key_deleted(ticket, now)
        elif before is None:
            self._places.end(ticket)
            self._grants.grant(ticket, ticket.created)
        elif _is_other(place, before):
            self._places.take(ticket, before, now)

    def failed(self, request: FindPlace, error: EtcdError, now: float) -> None:
        """It is read again, unless etcd does not let this user."""
        place = request.place
        if not self._places.is_current(place):
            return
        if not isinstance(error, EtcdUnavailable):
            self._deny(place, error, now)
            return
        place.ticket.queue.trouble = str(error)
        place.is_asked, place.failures = False, place.failures + 1
        place.due, self._outbox.is_early = now + pause(place.failures), True

    def _deny(self, place: Place, error: EtcdError, now: float) -> None:
        """etcd does not let this user see the queue, so nothing can wait in it."""
        self._endings.cancel(place.ticket, type(error)(str(error)), now)


def _is_other(place: Place, kv: KeyValue) -> bool:
    """Whether this is not the key that is watched; its name may be used again."""
    before = place.before
    return before is None or (before.key, before.create_revision) != (kv.key, kv.create_revision)
