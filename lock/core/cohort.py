"""One hold of a process, shared in turns by its threads and tasks; and kept for a while when nobody wants it.

The process queues with one key. Whoever has waited longest does the steps of that key's acquisition (`Acquisition`), on
behalf of all: it may leave at any step, and the next one goes on with it. To other processes it is one hold, so
exclusion needs no proof of its own: a turn begins only when no other turn runs, on a ticket that is held.

A hold that nobody here waits for may linger: the next acquisition is a turn of it, without a request. It counts as a
wait, so that its queue goes on being followed, and it lingers only while that is watched and listed and no other key
stands in it. However busy, a hold ends at the first release more than `OLDEST_S` after its grant: the keys of a name
above this one are in no queue that is watched here, and nobody hears of those who wait for it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from typing import Any

from lock.core.acquisition import FAREWELL_S, Acquisition, Send, Sleep, Terms
from lock.core.core import Core
from lock.core.messages import Create, ListQueue, TimeToLive
from lock.core.queue import Observer, Queue, Stage, Ticket
from lock.errors import EtcdError, EtcdUnavailable, LockError, LockTimeout, NotHeld

OLDEST_S = 1.0


@dataclass(frozen=True)
class Bounds:
    """When a hold goes to another process: see `lock.CohortMutex`."""

    batch: int
    slice: float
    linger: float


class Cohort(Observer):
    """The turns of one name in one session."""

    def __init__(self, core: Core, name: str, prefix: str, bounds: Bounds, timeout: float) -> None:
        self.core = core
        self.name = name
        self.turn: CohortTurn | None = None  # whose turn it is
        self.waits: deque[CohortTurn] = deque()  # those that wait for one, in their order
        self.given_up: Callable[[], object] | None = None  # called when a hold ends
        self._prefix = prefix
        self._bounds = bounds
        self.timeout = timeout  # what a call may take, in seconds
        self.acquisition: Acquisition | None = None  # of the key of the process, until its hold is given up
        self.is_contended = False  # another process has waited when the last turn ended
        self._taken = 0
        self.slice_ends = self._ends = 0.0
        self._lingering: Ticket | None = None  # it lingers
        self._lingers_until = 0.0
        self._due = math.inf  # when the core will ask what is due

    # Taking turns

    def enter(self, turn: CohortTurn, now: float) -> None:
        """Take the hold that lingers, or wait in line. Raises where the session is over or waits for no lock."""
        if self._lingering is not None and self._take_lingering(turn, now):
            return
        self.core.ensure_open(now)
        self.core.observers[self] = None
        self.waits.append(turn)

    def take(self, owner: object, where: str, now: float) -> CohortTurn | None:
        turn = CohortTurn(self, now, deadline=now, owner=owner, where=where)
        return turn if self._lingering is not None and self._take_lingering(turn, now) else None

    @property
    def is_lingering(self) -> bool:
        return self._lingering is not None

    def step(self, turn: CohortTurn, now: float) -> Send | Sleep | None:
        """The next step of the first in line; as `Acquisition.next`, whose errors end the attempt, not the line."""
        acquisition = self.acquisition
        if acquisition is not None and self._trier not in (None, turn):
            acquisition.leave(now)  # it would end without a hold, and this one waits
            acquisition = None
        try:
            if acquisition is None:
                acquisition = self.acquisition = self._begin(turn, now)
            step = acquisition.next(now)
        except LockError:
            self.acquisition = None
            raise
        if acquisition.is_held:
            self._taken, self.slice_ends, self._ends = 0, now + self._bounds.slice, now + OLDEST_S
            acquisition.ticket.waiter = None
            self._start(self.waits.popleft(), acquisition.ticket)
        return step

    def wake_first(self) -> None:
        """The first in line may have something to do."""
        if self.waits and self.turn is None:
            self.core.outbox.changes.append(self.waits[0])

    def end(self, turn: CohortTurn, now: float) -> Ticket | None:
        """The turn is over: the ticket to release, None where the hold goes on. `NotHeld` where it was over before."""
        turn.check_turn()
        ticket = turn.ticket
        assert ticket is not None
        self.turn = None
        if self._is_young(ticket, now):
            is_alone = ticket.queue.is_alone(ticket)
            # From the first time on, the session follows the queue.
            self.is_contended = not is_alone and self.core.contended(ticket, now)
            is_spent = self._taken >= self._bounds.batch or now >= self.slice_ends
            if self.waits and not (self.is_contended and is_spent):
                ticket.loss = None  # what comes now is not the loss of this turn
                self.core.outbox.changes.append(self.waits[0])
                self._start(self.waits.popleft(), ticket)
                return None
            if is_alone:
                ticket.loss = None
                self._linger(ticket, now)
                return None
        self._give_up()
        return ticket

    def leave(self, turn: CohortTurn, now: float) -> None:
        if self.turn is turn:
            ticket = self.end(turn, now)
            if ticket is not None:
                self.core.endings.leave(ticket, now)
            return
        if turn in self.waits:
            self.waits.remove(turn)
        if self.waits:
            self.wake_first()
        elif self.turn is None and self._lingering is None:
            if self.acquisition is not None:
                self.acquisition.leave(now)
            self._give_up()

    def _end_waits(self, failure: LockError) -> None:
        for turn in self.waits:
            turn.failure = failure
        self.core.outbox.changes += self.waits
        self.waits.clear()

    def lose(self, failure: LockError) -> None:
        self._end_waits(failure)
        self.acquisition = self._lingering = None

    def refuse(self, failure: LockError, now: float) -> None:
        """The session waits for no lock any more: a turn goes on, a hold that nobody has ends."""
        self._end_waits(failure)
        if self._lingering is not None:
            self.stop_lingering(now)
        elif self.turn is None and self.acquisition is not None:
            self.acquisition.leave(now)
            self._give_up()

    def timed_out(self, now: float, ttl_s: int | None, since: float, unplaced: LockError) -> LockError:
        """The error of a wait that began at `since`; `unplaced` where the process has no place in the queue."""
        acquisition = self.acquisition
        if acquisition is None or acquisition.ticket.created is None:
            return unplaced
        return acquisition.timed_out(now, ttl_s, since)

    def is_settled(self) -> bool:
        """Whether the process has its place, and it is known who holds."""
        if self.acquisition is None:  # the first in line is about to queue
            return False
        ticket = self.acquisition.ticket
        return ticket.stage is Stage.HELD or ticket.queue.is_settled(ticket)

    # Lingering

    def look(self, queue: Queue, now: float) -> None:
        """Of a hold that lingers."""
        if self._lingering is not None and not queue.is_alone(self._lingering):
            self.stop_lingering(now)

    def poll(self, now: float) -> float:
        """End the lingering if it is time; when to look again."""
        if self._lingering is not None and now >= self._lingers_until:
            self.stop_lingering(now)
        if self._lingering is not None:
            self._due = self._lingers_until
        else:
            self._due = now + self._bounds.linger if self.turn is not None and self._bounds.linger else math.inf
        return self._due

    def stop_lingering(self, now: float) -> None:
        """A hold that nobody uses ends."""
        ticket = self._stop_lingering()
        self.core.endings.leave(ticket, now)
        self._give_up()

    def _linger(self, ticket: Ticket, now: float) -> None:
        self._lingering, ticket.queue.observers[self] = ticket, None
        self._lingers_until = min(now + self._bounds.linger, self._ends)
        if self._lingers_until < self._due:
            self._due, self.core.outbox.is_early = self._lingers_until, True

    def _take_lingering(self, turn: CohortTurn, now: float) -> bool:
        if now >= self._lingers_until or now >= self.core.deadline:
            self.stop_lingering(now)
            return False
        ticket = self._stop_lingering()
        if ticket.stage is not Stage.HELD:  # lost between two turns: nobody's error
            self._give_up()
            return False
        self._start(turn, ticket)
        return True

    def _stop_lingering(self) -> Ticket:
        ticket, self._lingering = self._lingering, None
        assert ticket is not None
        ticket.queue.observers.pop(self, None)
        return ticket

    def _is_young(self, ticket: Ticket, now: float) -> bool:
        """Whether there may be another turn: the hold is wanted, ours, young and no fence."""
        core = self.core
        if not (self.waits or self._bounds.linger) or now >= self._ends or ticket.is_fence or core.refusal is not None:
            return False
        return ticket.stage is Stage.HELD and core.remaining(now) > 0.0

    def _start(self, turn: CohortTurn, ticket: Ticket) -> None:
        self._taken += 1
        self.turn, turn.number, turn.ticket = turn, self._taken, ticket
        ticket.where = turn.where

    def _begin(self, turn: CohortTurn, now: float) -> Acquisition:
        self._trier = turn if turn.tries else None  # whose try it is
        deadline = turn.deadline if turn.tries else math.inf
        acquisition = Acquisition(
            self.core, self.name, self._prefix, Terms(), turn.value, now,
            deadline=deadline, timeout=self.timeout, owner=self, tries=turn.tries, explains=turn.explains, follows=True,
        )  # fmt: skip
        acquisition.ticket.wake = self._wake_first
        return acquisition

    def _wake_first(self) -> None:
        """By a driver, without its lock: the ticket has changed."""
        try:
            wake = self.waits[0].wake
        except IndexError:
            return
        if wake is not None:
            wake()

    def _give_up(self) -> None:
        """The next one in line queues anew."""
        self.acquisition = None
        if self.given_up is not None:
            self.given_up()
        if self.waits:
            self.wake_first()
        else:
            self.core.observers.pop(self, None)


class TurnState(Enum):
    """Where a caller's wait for a turn stands; a turn that has come is one with a ticket."""

    NEW = "its driver has not asked for a step yet"
    IN_LINE = "it waits in line, or it is its turn"
    SENDING = "its driver sends, and answers before the next step"
    OVER = "the wait has ended, or the turn has"


@dataclass(eq=False)
class CohortTurn:
    """One caller's wait for a turn, and the turn; a driver drives it as an `Acquisition`."""

    cohort: Cohort
    since: float
    _: KW_ONLY
    deadline: float
    tries: bool = False
    explains: bool = False
    value: bytes = b""  # what the key says, if this one has to queue with it
    owner: object = None  # a weak reference to the thread or task
    where: str = ""  # in the program
    number: int = field(default=0, init=False)  # of the turns of a hold
    ticket: Ticket | None = field(default=None, init=False)  # of the hold, once it is its turn
    failure: LockError | None = field(default=None, init=False)  # why it waits no more
    wake: Callable[[], object] | None = field(default=None, init=False)  # as that of a ticket
    _state: TurnState = field(default=TurnState.NEW, init=False)
    _sent_for: Acquisition | None = field(default=None, init=False)  # on whose behalf, if not on its own
    _ttl: int | None = field(default=None, init=False)
    _wanted_ttl: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        return self.cohort.name

    @property
    def is_held(self) -> bool:
        """Whether it is its turn, or was."""
        return self.ticket is not None

    def wake_by(self, wake: Callable[[], object] | None) -> None:
        self.wake = wake

    def waits_for_itself(self) -> str | None:
        turn = self.cohort.turn
        return turn.where if turn is not None and turn is not self and turn.owner is self.owner else None

    def next(self, now: float) -> Send | Sleep | None:
        """As `Acquisition.next`. A wait that is over is None; a turn that is over raises `NotHeld`."""
        cohort = self.cohort
        if self.ticket is not None:
            cohort.core.check(self.ticket, now)
            self.check_turn()
            return None
        if self.failure is not None:
            raise type(self.failure)(str(self.failure))
        if self._state is TurnState.OVER:
            return None
        if self._state is TurnState.SENDING:
            return Sleep(math.inf)
        soon, last = math.inf, max(self.deadline, self.since) + cohort.timeout
        if self._state is TurnState.NEW:
            self._state = TurnState.IN_LINE
            if self.tries and (cohort.turn is not None or cohort.waits):
                self._state = TurnState.OVER
                if self.explains:
                    taken = LockTimeout(f"lock {self.name!r} is not free: others of this process wait for it")
                    raise cohort.timed_out(now, None, now, taken)
                return None
            cohort.enter(self, now)
            if self.ticket is not None:  # set by `enter`
                return None
        if cohort.turn is None and cohort.waits[0] is self:
            step = cohort.step(self, now)
            if isinstance(step, Send):
                self._state, self._sent_for = TurnState.SENDING, cohort.acquisition
                # It asks for all, but in its own time: another goes on.
                return Send(step.request, min(step.timeout, max(last - now, FAREWELL_S)))
            if step is None:
                if self.ticket is None:
                    self.leave(now)  # a try has found it taken
                return None
            soon = step.until
        if now < self.deadline:
            return Sleep(min(self.deadline, soon))
        if now < last and not cohort.is_settled():
            return Sleep(min(last, soon, now + FAREWELL_S))
        return self._time_out(now)

    def answered(self, request: Create | ListQueue | TimeToLive, answer: Any, now: float) -> None:
        acquisition = self._take_sender()
        if acquisition is not None:
            acquisition.answered(request, answer, now)
            self.cohort.wake_first()
        elif isinstance(request, TimeToLive):
            self._ttl = answer.ttl

    def failed(self, request: Create | ListQueue | TimeToLive, error: EtcdError, now: float) -> None:
        acquisition = self._take_sender()
        if acquisition is not None:
            acquisition.failed(request, error, now)
            self.cohort.wake_first()

    def unanswered(self, request: Create | ListQueue | TimeToLive) -> None:
        if self._sent_for is not None:
            self._sent_for.unanswered(request)

    def cancel(self, failure: LockError, now: float) -> None:
        """It waits no more, unless its turn has come."""
        if self.ticket is None and self.failure is None and self._state is not TurnState.OVER:
            self.failure = failure
            self.cohort.core.outbox.changes.append(self)
            self.leave(now)

    def leave(self, now: float) -> None:
        if self._state is not TurnState.OVER:
            self._state = TurnState.OVER
            self.cohort.leave(self, now)

    def end(self, now: float) -> Ticket | None:
        ticket = self.cohort.end(self, now)
        self._state = TurnState.OVER
        return ticket

    def fence(self, now: float) -> None:
        """As `Core.fence`; its end is the end of the hold. `NotHeld` where it is not its turn."""
        self.check_turn()
        assert self.ticket is not None
        self.cohort.core.fence(self.ticket, now)

    def check_turn(self) -> None:
        if self.cohort.turn is not self:
            raise NotHeld(f"this turn of lock {self.name!r} was ended before")

    def _take_sender(self) -> Acquisition | None:
        """On whose behalf it has sent what is answered; None for its own."""
        if self._state is TurnState.SENDING:
            self._state = TurnState.IN_LINE
        acquisition, self._sent_for = self._sent_for, None
        return acquisition

    def _time_out(self, now: float) -> Send:
        acquisition = self.cohort.acquisition
        kv = None if acquisition is None else acquisition.holder()
        if kv is not None and kv.lease_id and not self._wanted_ttl:
            self._wanted_ttl, self._state = True, TurnState.SENDING
            return Send(TimeToLive(kv.lease_id), FAREWELL_S)
        late = EtcdUnavailable(f"lock {self.name!r}: no place in the queue in time ({now - self.since:.1f} s)")
        error = self.cohort.timed_out(now, self._ttl, self.since, late)
        self.leave(now)
        raise error
