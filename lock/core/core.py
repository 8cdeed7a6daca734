"""A session's state machine: who holds, who waits, what has to be sent, and when to look again.

It has no thread, no socket and no clock: a driver tells it answers, events, losses and the time, sends what stands in
`outbox`, and wakes those that stand there. It is not thread-safe: the driver serialises the calls.

What makes a ticket a hold stands in `lock.core.grants`.

Any method may be called at any moment, with a ticket in any stage, however old: each says which stages it accepts, and
what it does in all others. Facts (an answer, a loss) may come late or twice, and are never false.

Error handling: whatever is in doubt is compared with etcd by `lock.core.reconciler`.
"""

import math
from typing import Any

from lock.core.admission import Admission
from lock.core.deletions import Deletions
from lock.core.endings import Endings
from lock.core.following import Following
from lock.core.grants import Grants
from lock.core.messages import Create, Delete, ListLease, ListQueue, Outbox, ReadKeys, Request, Written
from lock.core.predecessors import Predecessors
from lock.core.queue import OVER, KeyNames, Observer, Queue, Stage, Ticket
from lock.core.reconciler import Reconciler
from lock.core.revisions import Revisions
from lock.errors import LockError, NotHeld, SessionLost


class Core:
    """The tickets of one session, and its lease."""

    def __init__(self, lease_id: int, ttl: int, sent: float, *, owner: str) -> None:
        self.lease_id = lease_id
        self.ttl = ttl
        self.deadline = sent + ttl  # until then the lease is surely ours: counted from the sending of a renewal
        self.failure: SessionLost | None = None  # why the session is over
        self.refusal: LockError | None = None  # why it waits for no lock any more; may be set ahead of `refuse`
        self.tickets: dict[str, Ticket] = {}  # by key
        self.queues: dict[str, Queue] = {}  # by prefix
        self.observers: dict[Observer, None] = {}
        self.outbox = outbox = Outbox()
        self.revisions = revisions = Revisions(self.restored)
        self._owner = owner
        self._key_names = names = KeyNames(lease_id)
        self.grants = Grants(outbox, revisions)
        self.deletions = Deletions(outbox, revisions)
        self.endings = Endings(outbox, self.grants, self.deletions, names, self.tickets, self.queues)
        self.deletions.gone = self.endings.gone
        self.following = Following(outbox, revisions, self.grants, self.endings, sent)
        self.predecessors = Predecessors(outbox, revisions, self.grants, self.endings)
        self.reconciler = Reconciler(outbox, revisions, self.endings, self.deletions, names, ttl, sent)
        self._senders: dict[type, Any] = {
            Delete: self.deletions, ListQueue: self.following, ListLease: self.reconciler, ReadKeys: self.reconciler,
        }  # fmt: skip

    # The lease

    def remaining(self, now: float) -> float:
        """Seconds for which the lease is surely ours; 0.0 once it is lost."""
        return 0.0 if self.failure is not None else max(self.deadline - now, 0.0)

    def ensure(self, now: float) -> None:
        """Raise `SessionLost` if the lease is not surely ours."""
        if now >= self.deadline:
            self.lose(f"could not be kept alive for {self.ttl} s")
        if self.failure is not None:
            raise SessionLost(str(self.failure))

    def check(self, ticket: Ticket, now: float) -> None:
        """Raise why the hold or the wait is lost, if it is. Any stage."""
        self.ensure(now)  # first: with the lease all keys go
        failure = ticket.again()
        if failure is not None:
            raise failure

    def renewed(self, sent: float, ttl: int, now: float) -> None:
        """A renewal was answered; 0 seconds where the lease is gone."""
        if ttl == 0:
            self.lose("has expired or was revoked")
        elif now < self.deadline:  # an answer that comes too late does not count: holds may have been told
            self.deadline = max(self.deadline, sent + ttl)

    def lose(self, reason: str) -> bool:
        """The session is over, and with it whatever it holds and waits for; whether it was not before."""
        if self.failure is not None:
            return False
        loss = f"session {self._owner}: lease {self.lease_id:x} {reason}"
        self.failure = SessionLost(f"{loss}; it holds nothing any more")
        for ticket in self.tickets.values():
            if ticket.stage not in OVER:  # what was released before is not lost
                ticket.failure = self.failure
            ticket.stage = Stage.RELEASED
        self.outbox.changes += self.tickets.values()
        for observer in self.observers:
            observer.lose(self.failure)
        self.observers.clear()
        self.predecessors.clear()
        self.following.clear()
        self.tickets.clear()
        self.queues.clear()
        return True

    def refuse(self, refusal: LockError, now: float) -> None:
        """Cancel every wait, now and from now on, with this error; holds go on."""
        self.refusal = self.refusal or refusal
        for ticket in list(self.tickets.values()):
            self.endings.cancel(ticket, refusal, now)
        for observer in list(self.observers):
            observer.refuse(refusal, now)

    # From nothing to a hold

    def ensure_open(self, now: float) -> None:
        """Raise where the session is over or waits for no lock."""
        self.ensure(now)
        if self.refusal is not None:
            raise type(self.refusal)(str(self.refusal))

    def begin(self, prefix: str, folder: str, rule: Admission, now: float, *, owner: object = None) -> Ticket:
        """A ticket whose key is still to be written; raises where the session is over or waits for no lock."""
        self.ensure_open(now)
        queue = self.queues.get(prefix)
        if queue is None:
            queue = self.queues[prefix] = Queue(prefix)
        slot, key = self._key_names.take(queue, folder, self.tickets)
        # Whatever has happened to this name before was told before: its revision is at most the highest one known.
        ticket = Ticket(queue, slot, key, rule, self.revisions.highest, owner)
        queue.tickets[key] = self.tickets[key] = ticket
        self.reconciler.resume(now)
        if queue.view is not None:
            queue.view.follow(rule)
        if queue.observers:
            queue.changed(now)
        return ticket

    def creation(
        self, ticket: Ticket, value: bytes, *, if_free: bool, lists: bool = False, finds_position: bool = False
    ) -> Create:
        """The request to write the ticket's key, which is on its way from now on. Stage: WRITING."""
        assert ticket.stage is Stage.WRITING
        ticket.is_writing, ticket.value = True, value
        queue = ticket.queue
        needs_count = if_free or lists or queue.view is None or not queue.is_listed or queue.view.head() is None
        prefix = queue.prefix if needs_count else ""  # else there are others in its way, and the watch will tell
        return Create(
            ticket.key, value, self.lease_id, prefix, lists, if_free, finds_position and queue.is_only(ticket)
        )

    def written(self, ticket: Ticket, answer: Written, now: float) -> None:
        """A write of the ticket's key was answered.

        Stages: WRITING, which goes on from here; RELEASING, whose key is deleted; else it is known already.
        """
        ticket.is_writing = False
        kv = answer.kv
        is_new = kv is not None and not answer.was_there  # then its revision is a later one
        was_restored = self.revisions.observe(answer.revision, ticket.floor + is_new, now)
        if ticket.stage is Stage.RELEASED:  # with the session
            return
        if kv is None:  # the lock is not free, so nothing was written
            if ticket.stage is Stage.RELEASING:
                self.deletions.add(ticket, now)
            else:
                self.endings.leave(ticket, now)
            return
        is_ours = ticket.in_doubt and kv.create_revision > ticket.floor and kv.lease_id == self.lease_id
        if answer.was_there and (was_restored or not is_ours):
            self.reconciler.hurry(now)  # which deletes the key
            self.endings.give_up_name(ticket)
            return
        if ticket.created is not None and ticket.created != kv.create_revision:
            self.endings.key_deleted(ticket, now)  # of a key that the watch has told, and whose second write this is
        ticket.created = kv.create_revision
        if ticket.stage is Stage.RELEASING:
            self.deletions.add(ticket, now)
        elif ticket.stage is Stage.WRITING:
            ticket.stage = Stage.QUEUED
            conflict = self.grants.place(ticket, answer)
            if conflict is not None:
                self.endings.cancel(ticket, conflict, now)
            elif ticket.stage is Stage.QUEUED and ticket.queue.lacks(ticket):
                self.endings.key_deleted(ticket, now)

    def unwritten(self, ticket: Ticket, now: float) -> None:
        """A write of the ticket's key has failed.

        Stages: WRITING; RELEASING, whose key is deleted; in others nothing but a doubt is looked into.
        """
        ticket.is_writing = False
        if ticket.in_doubt:
            self.reconciler.hurry(now)
        if ticket.stage is Stage.RELEASING:
            self.deletions.add(ticket, now)

    def wait(self, ticket: Ticket, answer: Written, now: float, *, finds_position: bool) -> None:
        """Learn of its turn: by the key before it if it may (`finds_position`) and is alone here. Stage: QUEUED."""
        if finds_position and ticket.queue.is_only(ticket):
            self.predecessors.take(ticket, answer.before, answer.revision, now)
        else:
            self.following.join(ticket.queue, now)

    def contended(self, ticket: Ticket, now: float) -> bool:
        """Whether there is a waiter, as far as is known; from now on it is. Stage: HELD; else False, and nothing is."""
        if ticket.stage is not Stage.HELD:
            return False
        self.following.join(ticket.queue, now)
        view = ticket.queue.view
        assert view is not None
        return ticket.queue.is_listed and view.has_waiters(ticket.rule)

    def fence(self, ticket: Ticket, now: float) -> None:
        """A transaction relies on the key from now on, so nobody else may hold before it is deleted. Stage: HELD.

        In others the next one may hold already, while the key is still there: raises why, as `release`.
        """
        self._check_held(ticket, now)
        ticket.is_fence = True

    # From a hold, or a wait, to nothing: see `Endings`, too

    def release(self, ticket: Ticket, now: float, *, waits: bool = True) -> bool:
        """The hold is over; whether its driver sends the deletion (`Deletions.take`), and waits for it.

        It goes by itself where the driver does not wait, or where the next holder is of this session.

        Stage: HELD. Else it raises: `LockLost` where the hold was lost, `NotHeld` where it was given up before.
        """
        if ticket.stage is not Stage.HELD or now >= self.deadline:
            self._check_held(ticket, now)
        ticket.stage = Stage.RELEASING
        is_handed_over = not ticket.is_fence and self.grants.hand_over(ticket)
        ticket.is_unattended = is_handed_over or not waits
        if ticket.is_unattended:
            self.deletions.add(ticket, now, may_wait=is_handed_over)
        return not ticket.is_unattended

    # Answers

    def answered(self, request: Request, answer: Any, now: float) -> None:
        if self.failure is None:
            self._senders[type(request)].answered(request, answer, now)

    def failed(self, request: Request, error: LockError, now: float) -> None:
        if self.failure is None:
            self._senders[type(request)].failed(request, error, now)

    def unanswered(self, request: Request) -> None:
        """One of the endpoints did not answer: it may do a deletion yet."""
        if isinstance(request, Delete):
            self.deletions.unanswered(request)

    def restored(self, now: float) -> None:
        """etcd was restored from a backup, or another cluster answers: everything is compared with it."""
        self.revisions.highest = 0
        for ticket in self.tickets.values():
            ticket.floor = ticket.granted_at = 0
        self.following.restored(now)
        self.predecessors.restored(now)
        self.reconciler.read_all(now)

    # Time

    def poll(self, now: float) -> float:
        """Do what is due; when to call it again."""
        if now >= self.deadline:
            self.lose(f"could not be kept alive for {self.ttl} s")
        if self.failure is not None:
            return math.inf
        times = [self.deadline, *(observer.poll(now) for observer in list(self.observers))]
        if now >= self.following.due:
            self.following.look(now)
        times += self.deletions.poll(now), self.reconciler.poll(now)  # last: what was ended above is deleted
        if self.following.followed:
            times.append(self.following.due)
        return min(times)

    def _check_held(self, ticket: Ticket, now: float) -> None:
        self.check(ticket, now)
        if ticket.stage is not Stage.HELD:
            raise NotHeld(f"key {ticket.key!r} is not held: it was given up before")
