"""Compares the keys of the session's lease with its tickets, for as long as the session lives.

Whatever was left behind is found here: by a write that arrived late, an interrupt, a key that was deleted by hand, an
etcd that was restored from a backup.

- A stray is a key that this session has named, with no ticket when the list was asked for and none when it was
  answered. It is read, and deleted by its create revision. Other keys of the lease are none of ours.
- A ticket whose key is not in the list, or is in doubt, is read: the lease's list comes from the memory of the leader,
  and may lack keys that were acknowledged. It is lost where a linearizable read shows no key, or another one.

A holder so learns within two seconds that its key was deleted by hand. A session without a ticket, and without a key in
doubt, looks once a minute. Tickets that wait by their predecessor read their keys themselves, so where there are no
others nothing is listed, unless it is in doubt or a predecessor is a key of this lease, left behind.
"""

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lock.core.deletions import Deletions
from lock.core.endings import Endings
from lock.core.messages import Found, LeaseKeys, ListLease, Outbox, ReadKeys, Renew
from lock.core.queue import KeyNames, Stage, Ticket
from lock.core.revisions import Revisions
from lock.errors import EtcdError, EtcdUnavailable

logger = logging.getLogger(__name__)

_PERIOD_S = 2.0
_IDLE_S = 60.0
_HURRY_S = 0.25  # the least time between two looks
_READS = 100  # keys in one step


@dataclass(eq=False)
class Reconciler:
    """Looks now and then, one look at a time."""

    _outbox: Outbox
    _revisions: Revisions
    _endings: Endings
    _deletions: Deletions
    _names: KeyNames
    _ttl: int
    _began: float
    _open: list[ListLease | ReadKeys] = field(default_factory=list)  # those of this look that were not answered
    _is_hurried = _reads_all = False

    def __post_init__(self) -> None:
        self._period = min(self._ttl / 3, _PERIOD_S)
        self._due = self._began + self._period

    def resume(self, now: float) -> None:
        """There is a ticket, after a time without one."""
        if self._due > now + self._period:
            self._due = now + self._period
            self._outbox.is_early = True

    def hurry(self, now: float) -> None:
        """Something is in doubt: look soon."""
        self._due = min(self._due, max(now, self._began + _HURRY_S))
        self._is_hurried = self._outbox.is_early = True

    def read_all(self, now: float) -> None:
        """etcd was restored: a key of the same name may be another one, so every ticket is read."""
        self._reads_all = True
        self.hurry(now)

    def poll(self, now: float) -> float:
        """Order a look if it is due; when to look again, if no answer comes before."""
        if self._open:
            return math.inf
        if now < self._due:
            return self._due
        self._leave_abandoned(now)
        is_idle = not (self._endings.tickets or self._names.burnt)
        self._began, self._due = now, now + (_IDLE_S if is_idle else self._period)
        tickets = dict(self._endings.tickets)
        all_wait = tickets and all(map(self._waits, tickets.values()))
        if not all_wait or self._is_hurried or self._names.burnt:
            self._is_hurried = False
            self._request(ListLease(tickets))
        return self._due

    def answered(self, request: ListLease | ReadKeys, answer: LeaseKeys | Found, now: float) -> None:
        """Take the list, or what was read."""
        self._close(request)
        if isinstance(request, ListLease):
            assert isinstance(answer, LeaseKeys)
            self._compare(request.tickets, answer)
        else:
            assert isinstance(answer, Found)
            self._take(request, answer, now)

    def failed(self, request: ListLease | ReadKeys, error: EtcdError, now: float) -> None:
        """The next look is soon enough."""
        self._close(request)
        self._due = min(self._due, now + self._period)
        if not isinstance(error, EtcdUnavailable):
            logger.warning("the keys of lease %x were not compared: %s", self._names.lease_id, error)

    def _waits(self, ticket: Ticket) -> bool:
        """Whether it waits by a predecessor that is no key of this lease: such a one may have come by a restore."""
        position = ticket.queue.position_of(ticket)
        return position is not None and (position.before is None or position.before.lease_id != self._names.lease_id)

    def _leave_abandoned(self, now: float) -> None:
        """What waits for a ticket was interrupted where it could not say so."""
        for ticket in list(self._endings.tickets.values()):
            if ticket.waiter is not None and ticket.waiter() is None:
                self._endings.leave(ticket, now)

    def _compare(self, tickets: Mapping[str, Ticket], answer: LeaseKeys) -> None:
        if answer.ttl < 0:  # which means no lease, not lost keys
            self._outbox.commands.append(Renew())
            return
        there = set(answer.keys)
        strays = [
            key for key in sorted(there - tickets.keys() - self._endings.tickets.keys()) if self._names.has_named(key)
        ]
        missing = [ticket for key, ticket in tickets.items() if key not in there or ticket.in_doubt or self._reads_all]
        self._reads_all = False
        self._read(missing, strays)

    def _read(self, tickets: Iterable[Ticket], strays: Iterable[str]) -> None:
        wanted: dict[str, Ticket | None] = dict.fromkeys(strays)
        wanted.update((ticket.key, ticket) for ticket in tickets if ticket.stage in (Stage.QUEUED, Stage.HELD))
        keys = list(wanted)
        for first in range(0, len(keys), _READS):
            some = {key: wanted[key] for key in keys[first : first + _READS]}
            self._request(ReadKeys(some, self._revisions.highest))

    def _take(self, request: ReadKeys, answer: Found, now: float) -> None:
        self._revisions.observe(answer.revision, request.known, now)
        for key, ticket in request.tickets.items():
            kv = answer.kvs.get(key)
            if ticket is not None:
                if kv is None or kv.create_revision != ticket.created:
                    self._endings.key_deleted(ticket, now)
            elif kv is not None and key not in self._endings.tickets and kv.lease_id == self._names.lease_id:
                logger.warning("key %s belongs to no acquisition of this session: deleting it", key)
                self._deletions.gather((key, kv.create_revision), None, now)

    def _close(self, request: ListLease | ReadKeys) -> None:
        self._open = [each for each in self._open if each is not request]  # equality would compare all tickets

    def _request(self, request: ListLease | ReadKeys) -> None:
        self._open.append(request)
        self._outbox.commands.append(request)
