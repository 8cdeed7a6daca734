"""The way from nothing to a hold, step by step: what to ask, how long to wait, and how it ends.

A driver asks for the next step, does it, and says what came of it; a thread blocks meanwhile, a task awaits.

Error handling: whatever ends it early, the key that queued is deleted. A write whose answer was lost is repeated under
the same key, for as long as there is time.
"""

import math
import weakref
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from lock.core.admission import EXCLUSIVE, Admission, Frontier
from lock.core.core import Core
from lock.core.messages import Create, FindPosition, ListQueue, Request, TimeToLive, Written
from lock.core.queue import Stage
from lock.errors import (
    AdmissionConflict,
    EtcdError,
    EtcdUnavailable,
    LeaseNotFound,
    LockError,
    LockLost,
    LockTimeout,
    SessionLost,
)
from lock.model import UNDECLARED, Contender, Declaration, KeyValue

FAREWELL_S = 0.05  # what a wait that has timed out may still take to learn what the holder's lease has left
_RETRY_S = 0.1


@dataclass(frozen=True)
class Terms:
    """How a recipe queues: its rule, what its keys declare to others, and their folder under the prefix."""

    rule: Admission = EXCLUSIVE
    declared: Declaration = UNDECLARED
    folder: str = ""


class Send(NamedTuple):
    """A request to send, whose answer goes to `answered` or `failed`; it may take `timeout` seconds."""

    request: Request
    timeout: float


class Sleep(NamedTuple):
    """Wait until the ticket's `wake` is called, or until this time; it may be called sooner."""

    until: float


@dataclass(eq=False)
class Acquisition:
    """One ticket on its way; its driver either gets a hold from it, or it raises and leaves nothing behind."""

    core: Core
    name: str  # of the lock, for messages
    prefix: str
    terms: Terms
    value: bytes
    started: float
    _: KW_ONLY
    deadline: float  # of the wait in the queue, a time; `math.inf` for none. The requests have their own
    timeout: float  # what a call may take, in seconds
    last: float = 0.0  # when all of its requests are over, a time; 0.0: so much later than its deadline
    owner: object = None
    tries: bool = False  # it writes nothing where the lock is taken, and ends without a hold,
    explains: bool = False  # or so with a `LockTimeout`
    follows: bool = False  # its queue is followed while it waits, also where its predecessor would be enough

    def __post_init__(self) -> None:
        self.last = self.last or max(self.deadline, self.started) + self.timeout
        self._writes = 0
        self._retry_at = 0.0
        self._error: LockError | None = None
        self._may_join = not self.tries
        self._was_verified = self._was_listed = self._wanted_ttl = False
        self._head: KeyValue | None = None
        self.is_held = False
        self.ticket = self.core.begin(self.prefix, self.terms.folder, self.terms.rule, self.started, owner=self.owner)
        self.ticket.waiter = weakref.ref(self)

    @property
    def where(self) -> str:
        return self.ticket.where

    def wake_by(self, wake: Callable[[], object] | None) -> None:
        """Have this called, without any lock, when it may go on."""
        self.ticket.wake = wake

    def waits_for_itself(self) -> str | None:
        """Where its thread or task has acquired the lock that it waits for and alone can release; None: it has not.

        At any moment; once it is over, the answer is worth nothing.
        """
        mine = self.ticket
        own = [each for each in mine.queue.tickets.values() if each.owner is mine.owner]
        held = [each for each in own if each.stage is Stage.HELD]
        keys = {each.key: each.value for each in held} | {mine.key: self.value}
        admitted = Frontier(mine.rule, [KeyValue(*key, 0, 0, 0) for key in keys.items()]).advance()
        return None if mine.key in admitted else held[0].where

    def next(self, now: float) -> Send | Sleep | None:
        """What to do now; None once it is over: see `is_held`. Raises why there is no hold."""
        ticket = self.ticket
        if ticket.stage is Stage.HELD:
            self.core.ensure(now)  # a process that was frozen may hear of its turn before its lease's end
            self.is_held = True
            return None
        if self._error is not None:
            self.leave(now)
            raise self._error
        if ticket.failure is not None:
            return self._lost(now)
        if ticket.stage is Stage.WRITING:
            return self._write(now)
        if self.tries:
            self.leave(now)
        if ticket.stage is not Stage.QUEUED:
            return self._explain(now) if self.explains else None  # a try has found the lock taken
        position = ticket.queue.position_of(ticket)
        if now < self.deadline:
            if position is not None and now >= position.due:
                return Send(self.core.predecessors.read(position, now), self._left(now))
            return Sleep(min(self.deadline, math.inf if position is None else position.due))
        if position is not None:
            return self._explain(now)
        if not ticket.queue.is_settled(ticket) and now < self.last:  # by then etcd has told who holds
            return Sleep(min(self.last, now + FAREWELL_S))
        return self._time_out(now)

    def answered(self, request: Request, answer: Any, now: float) -> None:
        ticket, core = self.ticket, self.core
        if isinstance(request, Create):
            self._written(request, answer, now)
        elif isinstance(request, FindPosition):
            core.predecessors.answered(request, answer, now)
        elif isinstance(request, TimeToLive):
            if ticket.failure is None:
                self._error = self.timed_out(now, answer.ttl)
            elif answer.ttl < 0:
                core.lose("has expired or was revoked")
        else:
            self._head = next(iter(answer.keys), None)

    def failed(self, request: Request, error: EtcdError, now: float) -> None:
        ticket = self.ticket
        if isinstance(request, FindPosition):
            self.core.predecessors.failed(request, error, now)
            return
        if isinstance(request, TimeToLive) or (isinstance(request, ListQueue) and not self.tries):
            return  # the next step does without
        is_unavailable = isinstance(error, EtcdUnavailable)
        if isinstance(request, Create):
            self.core.unwritten(ticket, now)
            if isinstance(error, LeaseNotFound):
                self.core.lose("has expired or was revoked")
                return
            if is_unavailable and self._has_time(now + _RETRY_S):
                self._retry_at = now + _RETRY_S
                return
        reason = "no place in the queue in time: " if is_unavailable else ""
        self._error = type(error)(f"lock {self.name!r}: {reason}{error}")
        self._error.__cause__ = error

    def unanswered(self, request: Request) -> None:
        """One of the endpoints did not answer: it may do a write yet."""
        self.ticket.in_doubt = self.ticket.in_doubt or isinstance(request, Create)

    def leave(self, now: float) -> None:
        """It is over: no key and no hold is left behind."""
        self.core.endings.leave(self.ticket, now)

    def holder(self) -> KeyValue | None:
        """The key that holds, as far as is known."""
        ticket = self.ticket
        if ticket.stage is Stage.HELD:  # for threads that wait behind this one
            assert ticket.created is not None
            return KeyValue(ticket.key, self.value, ticket.created, ticket.created, self.core.lease_id)
        kv = self._head or ticket.queue.holder()
        return None if kv is None or kv.key == ticket.key else kv

    def _write(self, now: float) -> Send | Sleep:
        ticket = self.ticket
        if now < self._retry_at:
            return Sleep(self._retry_at)
        if ticket.is_writing:  # by another thread, whose place this one has taken
            return Sleep(math.inf)
        self._writes += 1
        lists = self.terms.rule != EXCLUSIVE and (self.tries or ticket.queue.view is None)
        finds_position = self._may_join and self.terms.rule == EXCLUSIVE and not self.follows
        request = self.core.creation(
            ticket, self.value, if_free=not self._may_join, lists=lists, finds_position=finds_position
        )
        return Send(request, self._left(now))

    def _written(self, request: Create, answer: Written, now: float) -> None:
        ticket, core = self.ticket, self.core
        if answer.kv is None and answer.keys is not None:
            self._judge(answer, answer.keys, now)
            return
        core.written(ticket, answer, now)
        if request.if_free:
            core.grants.grant(ticket, ticket.created)  # nothing stood before it
        elif ticket.stage is Stage.QUEUED and not self.tries:
            core.wait(ticket, answer, now, finds_position=request.finds_position)

    def _has_time(self, now: float) -> bool:
        """Whether to write again at that time: once more at least, for the connection may have been reset."""
        return now <= self.deadline or (self._writes < 2 and now < min(self.started + self.timeout, self.last))

    def _left(self, now: float) -> float:
        """The seconds that a request may take."""
        return min(self.timeout, max(self.last - now, FAREWELL_S))

    def _explain(self, now: float) -> Send | None:
        if not self._was_listed:
            self._was_listed = True
            return Send(ListQueue(self.prefix, self.ticket.floor, only_first=True), self._left(now))
        return self._time_out(now)

    def _judge(self, answer: Written, keys: list[KeyValue], now: float) -> None:
        """A try has found keys, and written none: queue if the rule lets it in behind them."""
        rule, ticket = self.terms.rule, self.ticket
        if ticket.key in Frontier(rule, [*keys, KeyValue(ticket.key, self.value, 0, 0, 0)]).advance():
            self.core.unwritten(ticket, now)
            self._may_join, self._writes = True, 0
            return
        conflict = rule.conflict(keys[0])
        self._error = None if conflict is None else AdmissionConflict(conflict)
        self.core.written(ticket, answer, now)

    def _lost(self, now: float) -> Send | None:
        """Raise the failure; where the key is gone, after a look whether that is because the lease is."""
        failure = self.ticket.again()
        assert failure is not None
        if type(failure) is LockLost and not self._was_verified and self.core.failure is None:
            self._was_verified = True
            return Send(TimeToLive(self.core.lease_id), self._left(now))
        raise SessionLost(str(self.core.failure)) if self.core.failure is not None else failure

    def _time_out(self, now: float) -> Send:
        """Raise an error that names the holder, after a look what its lease has left."""
        kv = self.holder()
        if kv is not None and kv.lease_id and not self._wanted_ttl:
            self._wanted_ttl = True
            return Send(TimeToLive(kv.lease_id), FAREWELL_S)
        self._error = self.timed_out(now, None)
        self.leave(now)
        raise self._error

    def timed_out(self, now: float, ttl_s: int | None, since: float | None = None) -> LockTimeout:
        """The error of a wait that began at `since`; `ttl_s` is what the holder's lease has left."""
        waited, queue = now - (self.started if since is None else since), self.ticket.queue
        kv = self.holder()
        holder = None if kv is None else Contender.of(kv, ttl_s, holds=True)
        return LockTimeout.after(waited, self.name, holder, queue.trouble)
