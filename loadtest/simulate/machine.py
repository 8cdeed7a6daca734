"""What the steps of a click wait for: a process that has a CPU, etcd's log, and the queue of a lock in etcd.

Times are seconds of simulated time; what waits is a generator for simpy.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import simpy

_SLICE_S = 0.003  # for which Linux lets a process run while others wait for the CPU
TURN, LEAD, CANCELLED, LOCK_TIMEOUT = "turn", "lead", "cancelled", "lock_timeout"  # ends of a wait
Steps = Generator[simpy.Event, Any, Any]


class Cpus:
    """Those of one machine, each with a run queue, as Linux has it (docs.kernel.org, "Scheduler Domains")."""

    def __init__(self, env: simpy.Environment, count: int) -> None:
        self._each, self._random = [simpy.Resource(env) for _ in range(count)], random.Random(1)

    def choose(self) -> simpy.Resource:
        """An idle one; or else any: a thread waits where it ran last, and queues are balanced at intervals only."""
        idle = (cpu for cpu in self._each if not (cpu.count or cpu.queue))
        return next(idle, None) or self._random.choice(self._each)


class Program:
    """Does one step at a time, as Redis does, and Python with its interpreter lock; etcd has more threads.

    Programs share `cpus`; None: there is one for each thread. A step after a pause takes `wake` seconds more.
    """

    def __init__(self, env: simpy.Environment, cpus: Cpus | None, *, threads: int = 1, wake: float = 0.0) -> None:
        self.threads, self._wake, self.busy_s = threads, wake, 0.0  # seconds of CPU time used
        self._env, self._cpus = env, cpus or Cpus(env, threads)
        self._steps: deque[tuple[float, simpy.Event]] = deque()
        self._idle: list[simpy.Event] = []
        for _ in range(threads):
            env.process(self._work())

    def run(self, seconds: float) -> simpy.Event:
        """Happens when the step is done."""
        done = self._env.event()
        if self._idle:
            self._idle.pop().succeed()
            seconds += self._wake
        self._steps.append((seconds, done))
        return done

    def _work(self) -> Steps:
        while True:
            while not self._steps:
                self._idle.append(self._env.event())
                yield self._idle[-1]
            with self._cpus.choose().request() as turn:
                yield turn
                began = self._env.now
                while self._steps and self._env.now < began + _SLICE_S:
                    seconds, done = self._steps.popleft()
                    yield self._env.timeout(seconds)
                    self.busy_s += seconds
                    done.succeed()
                    if not self._steps:
                        yield self._env.timeout(0)  # what is done may have more to do


class CommitLog:
    """etcd's log: what arrives while it is being written shares the next write, connection by connection."""

    def __init__(self, env: simpy.Environment, sync: float) -> None:
        self.busy_s = 0.0
        self._env, self._sync = env, sync
        self._pending: list[tuple[int, Callable[[], object], simpy.Event]] = []
        self._arrived = env.event()
        env.process(self._write())

    def commit(self, connection: int, change: Callable[[], object]) -> simpy.Event:
        """Happens when the change is made."""
        done = self._env.event()
        self._pending.append((connection, change, done))
        happen(self._arrived)
        return done

    def _write(self) -> Steps:
        while True:
            yield self._arrived
            self._arrived = self._env.event()
            together, self._pending = self._pending, []
            yield self._env.timeout(self._sync)
            self.busy_s += self._sync
            for _, change, done in sorted(together, key=lambda each: each[0]):
                change()
                done.succeed()


def happen(event: simpy.Event) -> None:
    """Let it happen, if it has not before."""
    if not event.triggered:
        event.succeed()


class Ticket:
    """A place in a queue, until `turn` happens with the way in which the wait ended."""

    def __init__(self, env: simpy.Environment, owner: Any) -> None:
        self.owner, self.turn = owner, env.event()
        self.told = self.gone = False

    @property
    def waits(self) -> bool:
        return not self.turn.triggered

    def end(self, how: str) -> None:
        """The wait is over, if it was not before; time is not up for a ticket that has its turn."""
        if self.waits and not (self.told and how == LOCK_TIMEOUT):
            self.turn.succeed(how)


class CommitQueue:
    """The clicks of an instance that are decided together; see `app/sales/commit_queue.py`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: deque[Ticket] = deque()
        self._leader: Ticket | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, ticket: Ticket) -> Steps:
        """Wait; LEAD if the ticket has to serve the others, or else how the wait ended."""
        self._waiting.append(ticket)
        self._appoint_first()
        how = yield ticket.turn
        if how == LOCK_TIMEOUT:
            self._waiting.remove(ticket)
            self.resign(ticket)
        return how

    def take(self) -> list[Ticket]:
        """Take the first of them out, the leader included."""
        group = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
        for each in group:
            each.told = True
        return group

    def settle(self, group: list[Ticket], outcomes: list[str]) -> None:
        """End their waits; those without an outcome return to the head."""
        for ticket, outcome in reversed(list(zip(group, outcomes, strict=True))):
            if outcome:
                ticket.end(outcome)
            else:
                ticket.told = False
                self._waiting.appendleft(ticket)

    def resign(self, leader: Ticket) -> None:
        """The next one leads; a leader without an outcome leaves the queue."""
        if self._leader is leader:
            self._leader = None
            if leader in self._waiting:
                self._waiting.remove(leader)
            self._appoint_first()

    def _appoint_first(self) -> None:
        if self._waiting and self._leader is None:
            self._leader = self._waiting[0]
            self._leader.end(LEAD)


class LockQueue:
    """The keys of a lock in etcd, in the order of their creation; `tell` lets the first one know that it holds."""

    def __init__(self, tell: Callable[[Ticket], object]) -> None:
        self._tickets: deque[Ticket] = deque()
        self._tell = tell

    def join(self, ticket: Ticket) -> None:
        """Its key is there."""
        self._tickets.append(ticket)
        self.leave([])

    def leave(self, tickets: list[Ticket]) -> None:
        """Their keys are deleted."""
        for ticket in tickets:
            ticket.gone = True
        while self._tickets and self._tickets[0].gone:
            self._tickets.popleft()
        if self._tickets and not self._tickets[0].told:
            self._tickets[0].told = True
            self._tell(self._tickets[0])

    def pass_on(self, owner: Any) -> bool:
        """Let the next ticket have the turn at once, if it is of the same instance as the one that ends."""
        for ticket in self._tickets:
            if not ticket.gone and (ticket.waits or ticket.owner is not owner):
                if ticket.owner is owner:
                    ticket.told = True
                    ticket.end(TURN)
                return ticket.owner is owner
        return True

    def contended(self, owner: Any) -> bool:
        """Whether another instance waits."""
        return any(not ticket.gone and ticket.owner is not owner for ticket in self._tickets)
