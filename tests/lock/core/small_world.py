"""A small world of sessions on the core and the simulated etcd, whose next step is chosen from outside.

`World.moves` lists all that may happen now, and `World.make` does one of them. `tests.lock.core.explorer` tries all: it
copies the world, and tells equal ones by their content. So a world is a plain value, nothing in here is a closure, and
times and revisions say that they are (`Time`, `Revision`).
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partialmethod
from typing import Any, TypeVar

from lock.core import messages
from lock.core.acquisition import Acquisition, Send, Sleep, Terms
from lock.core.cohort import Bounds, Cohort, CohortTurn
from lock.core.core import Core
from lock.core.expiry import Expiry
from lock.core.queue import KeyNames, Position, Queue, Stage, Ticket
from lock.errors import EtcdUnavailable, LeaseNotFound, LockError, LockLost
from lock.model import Event, KeyValue, LeaseStatus
from lock.testing.simulated_etcd import SimulatedEtcd

TTL_S = 10
TIMEOUT_S = 1.0  # of a call
HONEST_S = 5.0  # within which a holder is told that its key is gone
QUIET_S = 25.0  # within which all ends once nothing goes wrong any more: less than a waiter sleeps unasked
IDLE_S = 60.0  # within which a session that has no key finds one that a restore has brought back
MOST = 5000  # steps until then
STRANGER = "0-go"  # the name of the key with which another client queues, and holds where it is the first
FREE_TIMES = 4  # that time may run on, one after the other, where nothing else can happen
NEXT = {"idle": "begin", "woken": "go", "held": "release"}  # what a thread does next, if it has not to wait
PLAIN = Terms()
BOUNDS = Bounds(batch=2, slice=1.0, linger=0.0)


class Violation(AssertionError):
    """A rule was broken."""


T = TypeVar("T", bound="One")


class One:
    """Values of which equal ones are one object, so that a copy of a state has no more and no fewer of them."""

    _all: dict[Any, Any]

    def __init_subclass__(cls) -> None:
        cls._all = {}

    def __new__(cls: type[T], value: Any) -> T:
        if value not in cls._all:
            cls._all[value] = super().__new__(cls, value)  # type: ignore[call-arg]
        one: T = cls._all[value]
        return one


class Key(One, str):
    """The name of a key."""


class Value(One, bytes):
    """What a key says."""


class Revision(One, int):
    """A revision of etcd."""

    def __add__(self, other: int) -> Revision:
        return Revision(int(self) + other)


class Time(One, float):
    """A moment; the difference of two is a plain number."""

    def __add__(self, seconds: float) -> Time:
        return Time(float(self) + seconds)

    __radd__ = __add__

    def __sub__(self, other: float) -> Any:
        difference = float(self) - float(other)
        return difference if isinstance(other, Time) else Time(difference)


class Names(KeyNames):
    """Those of keys, each of which is one object."""

    def take(self, queue: Queue, folder: str, taken: Container[str]) -> tuple[int, str]:
        slot, key = super().take(queue, folder, taken)
        return slot, Key(key)


@dataclass(frozen=True)
class Want:
    """One acquisition of an actor.

    Attributes:
        names: of the lock; several are taken one after the other.
        tries: whether it only tries.
        turn: whether it is a turn of the session's cohort.
        fence: whether a transaction relies on the hold.
        max_hold: seconds after which the hold is given up, 0 for never.
        leaves: whether its time in the queue may be over at any moment of its wait.
    """

    names: tuple[str, ...] = ("m/",)
    terms: Terms = PLAIN
    tries: bool = False
    turn: bool = False
    fence: bool = False
    max_hold: float = 0.0
    leaves: bool = False

    @property
    def value(self) -> bytes:
        """What the key says."""
        declared = self.terms.declared._asdict()
        return Value(json.dumps({name: value for name, value in declared.items() if value is not None}).encode())


@dataclass(frozen=True)
class Plan:
    """A world to be tried.

    Attributes:
        sessions: of each its actors, and of each of those what it acquires, one after the other.
        times: how often time may run on while something else can happen.
        bounds: of the cohorts.
        kinds: of faults that this world has; empty: all.
        after: the moves with which every history begins, for what is deep.
    """

    sessions: tuple[tuple[tuple[Want, ...], ...], ...]
    times: int = 0
    bounds: Bounds = BOUNDS
    kinds: tuple[str, ...] = ()
    after: str = ""


class Etcd(SimulatedEtcd):
    """The server; watches have what they are still to tell, so that it needs no history. `backup` may be restored."""

    def __init__(self) -> None:
        super().__init__()
        self.revision: int = Revision(1)
        self.watches: dict[tuple[int, str], Watch] = {}
        self.backup: tuple[int, dict[str, KeyValue], dict[int, tuple[int, float]]] | None = None

    def serve(self, request: messages.Request, lease_id: int) -> object:
        """Do what the session of this lease asks."""
        match request:
            case messages.Create():
                return self.create_key(request)
            case messages.Delete():
                return self.delete_keys(request)
            case messages.ListQueue():
                return self.list_queue(request)
            case messages.FindPosition():
                return self.find_position(request)
            case messages.ReadKeys():
                return self.read_keys(request)
            case messages.ListLease():
                return self.list_lease(lease_id)
        ttl, _ = self.leases.get(request.lease_id, (-1, 0.0))
        return LeaseStatus(ttl, ttl)

    def _changed(self, events: list[Event]) -> None:
        for (_, prefix), watch in self.watches.items():
            ours = [event for event in events if watch.covers(event.kv.key, prefix)]
            if ours and watch.stage == "open":
                watch.pending.append(ours)


class Watch:
    """A watch of one prefix, or of the key before a place under it: asked for, open, or cut."""

    def __init__(self, place: Position | None = None, known: int = 0) -> None:
        self.place = place
        self.known = known  # see `lock.etcd.watches.Watch`
        self.stage = "asked"
        self.pending: list[list[Event]] = []

    def covers(self, key: str, prefix: str) -> bool:
        if self.place is None:
            return key.startswith(prefix)
        assert self.place.before is not None
        return key == self.place.before.key


@dataclass(eq=False)
class Flight:
    """A request on its way to etcd, or its answer on the way back.

    Attributes:
        sender: the part of the core that is told.
        actor: whose thread waits for it.
        stage: "sent", "done" (etcd has done it), "late" (given up, and may yet arrive), "again" (told, and once more).
    """

    process: Process
    request: Any
    sender: Any
    actor: Actor | None = None
    stage: str = "sent"
    answer: Any = None


class Actor:
    """A thread: it acquires, holds and releases what it wants, one thing after the other."""

    def __init__(self, process: Process, number: int, wants: tuple[Want, ...]) -> None:
        self.process = process
        self.number = number
        self.wants = wants
        self.state = "idle"  # asks, waits, woken, held, releases, done
        self.names: tuple[str, ...] = ()  # that it has yet to acquire, one after the other
        self.current: Acquisition | CohortTurn | None = None
        self.until: float = math.inf
        self.holds: list[Hold] = []
        self.since: int = 0  # what etcd's revision was when it began, where it was restored

    @property
    def want(self) -> Want:
        return self.wants[0]

    def wake(self) -> None:
        """Its ticket has changed."""
        if self.state == "waits":
            self.state = "woken"

    def __str__(self) -> str:
        return f"thread {self.number} of session {self.process.number}"


@dataclass(eq=False)
class Hold:
    """What a thread believes to hold; `excused`: a hand or a restore took the key, so it may be told late."""

    name: str
    terms: Terms
    ticket: Ticket
    turn: CohortTurn | None
    token: tuple[int, int]
    excused: bool = False
    told_lost: bool = False


class Process:
    """One session, and what its driver does."""

    def __init__(self, world: World, number: int, scripts: tuple[tuple[Want, ...], ...]) -> None:
        self.world, self.number = world, number
        self.core = Core(number, TTL_S, world.now, owner=f"session {number}")
        self.core._key_names.__class__ = Names
        self._expiry: Expiry | None = None
        self.cohort = Cohort(self.core, "m", Key("m/"), world.plan.bounds, TIMEOUT_S)
        self.actors = [Actor(self, n, wants) for n, wants in enumerate(scripts, 1)]
        self.state = "runs"  # paused, dead
        self.due: float = math.inf
        self.renews = True  # its lease
        self.deleted_by_hand: list[tuple[str, int]] = []
        self.was_restored = False
        self.restored_to = 0  # the revision to which etcd went back, until the core has learnt of it
        self.had_late = False  # a write has arrived that was given up: its key belongs to no ticket

    def is_renewed(self) -> bool:
        return self.state == "runs" and self.renews and self.core.failure is None

    @property
    def expiry(self) -> Expiry:
        """Made where it is needed: whatever is in a state makes its copies slower."""
        self._expiry = self._expiry or Expiry(self.core)
        return self._expiry

    # Driving the core

    def flush(self) -> None:
        """Wake whose tickets have changed, and carry out what the core commands."""
        core, world = self.core, self.world
        for _ in range(50):
            changes, core.outbox.changes = core.outbox.changes, []
            for ticket in changes:
                if isinstance(ticket, Ticket):
                    self.judge(ticket)
                if ticket.wake is not None:
                    ticket.wake()
            is_early = any(each.process is self and each.answer is not None for each in world.flights)
            if core.revisions.highest <= self.restored_to and not is_early:  # no answer of before is under way
                self.restored_to = 0
            core.outbox.is_early = False
            self.due = core.poll(world.now)
            commands, core.outbox.commands = core.outbox.commands, []
            for command in commands:
                self.carry_out(command)
            if not (core.outbox.commands or core.outbox.is_early or core.outbox.changes):
                return
        raise Violation(f"session {self.number} looks again and again")

    def carry_out(self, command: messages.Command) -> None:
        etcd, core = self.world.etcd, self.core
        match command:
            case messages.Follow():
                etcd.watches[self.number, command.prefix] = Watch()
            case messages.FollowKey():
                etcd.watches[self.number, command.prefix] = Watch(command.position, command.known)
            case messages.Unfollow():
                etcd.watches.pop((self.number, command.prefix), None)
            case messages.Renew():
                core.renewed(self.world.now, etcd.keep_alive(core.lease_id, self.world.now), self.world.now)
            case _:
                self.send(command, core)

    def send(self, request: Any, sender: Any, actor: Actor | None = None) -> None:
        deleted = (
            [key for key, created in request.keys if created is None] if isinstance(request, messages.Delete) else []
        )
        for flight in self.world.flights:
            if flight.process is self and flight.stage == "sent" and isinstance(flight.request, messages.Create):
                require(flight.request.key not in deleted, f"{flight.request.key} is deleted while it is being written")
        self.world.flights.append(Flight(self, request, sender, actor))

    def judge(self, ticket: Ticket) -> None:
        """A loss is told only where there was one."""
        if type(ticket.failure) is LockLost and ticket.created is not None and not self.was_restored:
            was_lost = ticket.in_doubt and any(key == ticket.key for key, _ in self.deleted_by_hand)
            is_there = self.world.etcd.has(ticket.key, ticket.created)
            require(was_lost or not is_there, f"{ticket.key} is told to be lost, and is there")

    # What threads do

    def begin(self, actor: Actor) -> None:
        """The next thing that it wants."""
        want, now = actor.want, self.world.now
        until = now if want.tries else math.inf
        try:
            if want.turn:
                actor.current = CohortTurn(
                    self.cohort, now, deadline=until, tries=want.tries, value=want.value, owner=actor.number
                )
            elif len(want.names) > 1:
                self.queue_up(actor, *sorted(want.names))
                return
            else:
                actor.current = self.acquisition(actor, want.names[0], until)
        except LockError:
            self.next_want(actor)
            return
        actor.state = "woken"
        self.go(actor)

    def acquisition(self, actor: Actor, name: str, until: float) -> Acquisition:
        want = actor.want
        actor.since = self.world.etcd.revision if self.was_restored else 0
        return Acquisition(
            self.core, Key(name), Key(name), want.terms, want.value, self.world.now, deadline=until, timeout=TIMEOUT_S,
            owner=actor.number, tries=want.tries,
        )  # fmt: skip

    def queue_up(self, actor: Actor, first: str, *rest: str) -> None:
        """For one of several names."""
        actor.names = rest
        try:
            actor.current = self.acquisition(actor, first, math.inf)
        except LockError:
            self.release(actor)
            return
        actor.state = "woken"
        self.go(actor)

    def go(self, actor: Actor) -> None:
        """The next step of its acquisition."""
        current = actor.current
        assert current is not None
        try:
            step = current.next(self.world.now)
        except LockError:
            current.leave(self.world.now)
            self.release(actor)
            return
        if isinstance(step, Send):
            actor.state = "asks"
            self.send(step.request, current, actor)
        elif isinstance(step, Sleep):
            actor.state, actor.until = "waits", step.until
            current.wake_by(actor.wake)
            if actor.until <= self.world.now:
                actor.state = "woken"
        elif current.is_held:
            self.hold(actor, current)
        else:
            self.release(actor)

    def hold(self, actor: Actor, acquisition: Acquisition | CohortTurn) -> None:
        world, core, ticket, want = self.world, self.core, acquisition.ticket, actor.want
        assert ticket is not None
        assert ticket.created is not None
        require(core.remaining(world.now) > 0.0, f"{actor} holds without a lease")
        turn = acquisition if isinstance(acquisition, CohortTurn) else None
        is_its_turn = ticket.stage is Stage.HELD and (turn is None or turn.cohort.turn is turn)
        require(is_its_turn, f"{actor} holds {ticket.key}, whose hold or turn is over")
        is_its_own = turn is not None or ticket.in_doubt or ticket.created > actor.since
        require(is_its_own, f"{actor} holds by {ticket.key} of before it began")
        token = ticket.created, turn.number if turn is not None else 0
        held = Hold(ticket.queue.prefix, want.terms, ticket, turn, token)
        held.excused = self.was_restored or (ticket.key, ticket.created) in self.deleted_by_hand
        ticket.waiter = None
        actor.holds.append(held)
        actor.current = None
        world.begins(held)
        if want.fence:
            self.fence(held)
        if want.max_hold and turn is None:
            self.expiry.expire_in(ticket, want.max_hold, "max_hold", world.now)
        if actor.names:
            self.queue_up(actor, *actor.names)
        else:
            actor.state = "held"

    def fence(self, held: Hold) -> None:
        """A transaction relies on the hold from now on."""
        with contextlib.suppress(LockError):
            held.turn.fence(self.world.now) if held.turn is not None else self.core.fence(held.ticket, self.world.now)
            self.note_fence(held.ticket, held.token[1])

    def note_fence(self, ticket: Ticket, turn: int = 0) -> None:
        """A condition was given: nobody else may hold while it is true."""
        if not self.was_restored and (ticket.key, ticket.created) not in self.deleted_by_hand:
            token = ticket.created or 0, turn
            self.world.fenced.append((ticket.queue.prefix, ticket.key, token))
            self.world.check_fence(ticket.queue.prefix, ticket, token)

    def release(self, actor: Actor) -> None:
        """It gives up what it holds, and goes on when that is over."""
        holds, actor.holds, actor.current = actor.holds, [], None
        actor.names, actor.until = (), math.inf
        tickets = []
        for held in holds:
            ticket: Ticket | None = held.ticket
            if held.turn is not None:
                try:
                    ticket = held.turn.end(self.world.now)
                except LockError:
                    ticket = None
            if ticket is not None:
                tickets.append(ticket)
        if not tickets:
            self.next_want(actor)
            return
        released = [ticket for ticket in tickets if self.has_released(ticket)]
        if released:
            self.send(self.core.deletions.take(released), self.core.deletions, actor)
            actor.state = "releases"
        else:
            self.next_want(actor)

    def has_released(self, ticket: Ticket) -> bool:
        """Whether its deletion is still to be sent."""
        try:
            is_to_send = self.core.release(ticket, self.world.now)
        except LockError:
            return False
        require(self.core.remaining(self.world.now) > 0.0, "it is not told that its lease was over before it released")
        return is_to_send

    def next_want(self, actor: Actor) -> None:
        actor.wants = actor.wants[1:]
        actor.state = "idle" if actor.wants else "done"

    def tell(self, flight: Flight, error: Exception | None = None) -> None:
        """A request was answered, or was not."""
        if error is None and isinstance(flight.answer, LeaseNotFound):
            error = flight.answer
        tell = flight.sender.answered if error is None else flight.sender.failed
        tell(flight.request, flight.answer if error is None else error, self.world.now)

    def go_on(self, flight: Flight) -> None:
        """The thread that waited for the answer."""
        actor = flight.actor
        if actor is None or flight.stage == "again":
            return
        if actor.state == "asks" and flight.sender is actor.current:
            self.go(actor)
        elif actor.state == "releases" and flight.sender is self.core.deletions:
            self.next_want(actor)


class World:
    """All there is; `faults` may still happen."""

    def __init__(self, plan: Plan, faults: int) -> None:
        self.plan = plan
        self.now: float = Time(0.0)
        self.faults = faults
        self.times = plan.times
        self.free_times = 0
        self.etcd = Etcd()
        self.flights: list[Flight] = []
        self.fenced: list[tuple[str, str, tuple[int, int]]] = []
        self.highest: dict[str, tuple[int, int]] = {}
        self.processes = [Process(self, number, scripts) for number, scripts in enumerate(plan.sessions, 1)]
        for process in self.processes:
            self.etcd.grant(process.number, TTL_S, self.now)
            process.flush()
        for step in plan.after.split("; ") if plan.after else ():
            self.make(tuple(int(part) if part.isdigit() else part for part in step.split()))
        self.faults, self.budget, self.times = faults, faults, plan.times

    # Rules

    def believed(self, name: str) -> list[Hold]:
        """The holds of a name that their threads may rely on."""
        return [
            held
            for process in self.processes if process.state != "dead"
            for actor in process.actors for held in actor.holds
            if held.name == name and not held.excused and self.is_believed(process, held)
        ]  # fmt: skip

    def is_believed(self, process: Process, held: Hold) -> bool:
        return process.core.remaining(self.now) > 0.0 and held.ticket.failure is None

    def begins(self, held: Hold) -> None:
        """A hold begins: its token rises, and no fence stands."""
        if held.excused or held.terms.rule != Terms().rule:
            return
        require(held.token > self.highest.get(held.name, (0, 0)), f"the token of {held.name} does not rise")
        self.highest[held.name] = held.token
        for name, key, token in self.fenced:
            is_open = name == held.name and token != held.token and self.etcd.has(key, token[0])
            require(not is_open, f"{key} is a fence, and still there, and another one holds")

    def check_fence(self, name: str, ticket: Ticket, token: tuple[int, int]) -> None:
        others = [held for held in self.believed(name) if held.token != token and held.terms.rule == Terms().rule]
        require(not others, f"{ticket.key} gives a condition for {token}, and another one holds {name}")

    def check(self) -> None:
        """The rules that are to hold at any moment."""
        for name in {held.name: None for process in self.processes for a in process.actors for held in a.holds}:
            holds = sorted(self.believed(name), key=lambda held: held.token)
            kinds = [held.terms.declared.kind for held in holds]
            for place, kind in enumerate(kinds):
                ahead = Counter(each for each in kinds[:place] if each is not None)
                is_shared = kind is not None and kind != "write" and not {None, "write"} & set(kinds[:place])
                fits = not place or (is_shared and holds[0].terms.rule.admits(kind or "", ahead))
                require(fits, f"two hold {name}: {[held.ticket.key for held in holds]}")
            stranger = f"{name}{STRANGER}"
            is_first = stranger in self.etcd.keys and self.etcd.under(name)[0].key == stranger
            require(not (is_first and holds), f"another client holds {name}, and {[held.ticket.key for held in holds]}")
        for process in self.processes:
            watch = self.etcd.watches.get((process.number, "m/"))
            is_followed = watch is not None and watch.stage != "asked"
            is_safe = is_followed or not process.cohort.is_lingering or process.state == "dead"
            require(is_safe, f"session {process.number} lingers, and no watch tells it")
            for held in (held for actor in process.actors for held in actor.holds):
                is_lost = process.core.remaining(self.now) <= 0.0 or held.ticket.failure is not None
                require(is_lost or not held.told_lost, f"the loss of {held.ticket.key} is taken back")
                held.told_lost = held.told_lost or (is_lost and process.state == "runs")

    # Moves

    def moves(self) -> list[tuple[Any, ...]]:
        """All that may happen now; each a tuple of names and numbers. Time runs on if nothing else can, or it may."""
        found: list[tuple[Any, ...]] = []
        for process in self.processes:
            if process.state == "runs":
                found += self._moves_of(process)
            elif process.state == "paused":
                found.append(("thaw", process.number))
        for (number, prefix), watch in self.etcd.watches.items():
            if self.processes[number - 1].state == "runs" and (watch.stage != "open" or watch.pending):
                found.append(("hear", number, prefix))
        for place, flight in enumerate(self.flights):
            if flight.stage in ("sent", "late"):
                found.append(("arrive", place))
            elif flight.process.state == "runs":
                found.append(("answer", place))
        found += [("depart", key) for key in self.etcd.keys if key.endswith(STRANGER)]
        may_wait = self.times or (not found and self.free_times < FREE_TIMES)
        if may_wait and not self.is_over() and self.next_time() < math.inf:
            found.append(("time",))
        for actor in (each for process in self.processes if process.state == "runs" for each in process.actors):
            if actor.state == "waits" and actor.want.leaves and actor.current and actor.current.deadline > self.now:
                found.append(("leave", actor.process.number, actor.number))
        if self.faults:
            from tests.lock.core.faults import faults_of

            found += faults_of(self)
        return found

    def _moves_of(self, process: Process) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        if process.due <= self.now:
            found.append(("look", process.number))
        if not process.renews and process.core.deadline > self.now:
            found.append(("lapse", process.number))
        found += [(NEXT[each.state], process.number, each.number) for each in process.actors if each.state in NEXT]
        return found

    def make(self, move: tuple[Any, ...]) -> None:
        """Do it; raises `Violation`."""
        kind, *where = move
        if kind != "time":
            self.free_times = 0
        step = getattr(self, f"_{kind}", None)
        if step is None:
            from tests.lock.core import faults

            self.faults -= 1
            step = getattr(faults, kind)
            step(self, *where)
        else:
            step(*where)
        self.check()

    def is_over(self) -> bool:
        """Whether every thread is done, and no key is left."""
        alive = [process for process in self.processes if process.state != "dead"]
        is_left = self.flights or self.etcd.keys or any(process.core.tickets for process in alive)
        return not is_left and all(actor.state == "done" for process in alive for actor in process.actors)

    def may_be_restored(self) -> bool:
        """Whether etcd goes back to a backup, or has gone."""
        may_back_up = self.faults and (not self.plan.kinds or "back_up" in self.plan.kinds)
        return bool(may_back_up or self.etcd.backup or any(process.was_restored for process in self.processes))

    def process(self, number: int) -> Process:
        return self.processes[number - 1]

    def actor(self, number: int, actor: int) -> Actor:
        return self.processes[number - 1].actors[actor - 1]

    def _begin(self, number: int, actor: int, does: Callable[[Process, Actor], None] = Process.begin) -> None:
        does(self.process(number), self.actor(number, actor))
        self.process(number).flush()

    _go = partialmethod(_begin, does=Process.go)
    _release = partialmethod(_begin, does=Process.release)

    def _leave(self, number: int, actor: int) -> None:
        """The time that it had in the queue is over."""
        one = self.actor(number, actor)
        assert one.current is not None
        one.current.deadline = one.until = self.now
        one.wake()

    def _hear(self, number: int, prefix: str) -> None:
        """What a watch tells next."""
        watch, process = self.etcd.watches[number, prefix], self.process(number)
        told: Any = []
        is_news = True
        if watch.stage == "cut":
            told, watch.stage, watch.known = EtcdUnavailable("cut"), "asked", 0
        elif watch.stage == "asked":
            watch.stage = "open"  # at the server a moment before; what it tells comes later in any case
            watch.known, is_news = 0, self.etcd.revision != watch.known
        else:
            told = watch.pending.pop(0)
        if not is_news:
            return
        if watch.place is None:
            process.core.following.handle_event(prefix, told, self.now)
        else:
            process.core.predecessors.handle_event(watch.place, told, self.now)
        process.flush()

    def _arrive(self, place: int) -> None:
        """etcd does what it is asked."""
        flight = self.flights[place]
        try:
            flight.answer = self.etcd.serve(flight.request, flight.process.core.lease_id)
        except LeaseNotFound as error:
            flight.answer = error
        if flight.stage == "late":
            flight.process.had_late = True
            self.flights.remove(flight)
        else:
            flight.stage = "done"

    def _answer(self, place: int) -> None:
        flight = self.flights.pop(place)
        flight.process.tell(flight)
        flight.process.go_on(flight)
        flight.process.flush()

    def _thaw(self, number: int) -> None:
        self.process(number).state = "runs"

    def _lapse(self, number: int) -> None:
        """The lease that is renewed no more ends, as far as its session counts."""
        self.run_to(self.process(number).core.deadline)

    def _look(self, number: int) -> None:
        """The session's worker: what is due is done, later than it could be."""
        self.process(number).flush()

    def _depart(self, key: str) -> None:
        """Another client is done, or waits no more."""
        self.etcd.remove([key])

    # Time

    def next_time(self) -> float:
        """When something is due that was not before."""
        times: list[float] = []
        for process in self.processes:
            if process.state == "runs":
                times += [process.due, *(a.until for a in process.actors if a.state == "waits")]
            if not process.is_renewed() and process.number in self.etcd.leases:
                times.append(self.etcd.leases[process.number][1])
        return min((each for each in times if each > self.now), default=math.inf)

    def _time(self) -> None:
        if self.times:
            self.times -= 1
        self.free_times += 1
        self.run_to(self.next_time())

    def run_to(self, moment: float) -> None:
        """Time runs on; leases of those that run are renewed."""
        self.now = Time(moment)
        for process in self.processes:
            if process.is_renewed():
                process.core.deadline = Time(self.now + TTL_S)  # as by renewals on the way
                process.core.renewed(self.now, self.etcd.keep_alive(process.number, self.now), self.now)
            for actor in process.actors:
                if actor.state == "waits" and actor.until <= self.now:
                    actor.state = "woken"
        self.etcd.expire(self.now)

    def settle(self) -> None:
        """Nothing goes wrong any more: all ends soon, and nothing is left; raises `Violation`."""
        self.faults = self.times = 0
        self.check_strays()
        self.run_for(HONEST_S, releases=False)
        for process in self.processes:
            for held in (held for actor in process.actors for held in actor.holds):
                is_over = held.ticket.stage is not Stage.HELD or (held.turn and held.turn.cohort.turn is not held.turn)
                is_told = process.state == "dead" or is_over or not self.is_believed(process, held)
                is_told = is_told or bool(process.restored_to)
                is_there = self.etcd.has(held.ticket.key, held.token[0])
                require(is_told or is_there, f"{held.ticket.key} is gone, and its holder is not told")
        was_restored = any(process.was_restored for process in self.processes)
        self.run_for(QUIET_S + IDLE_S * was_restored)
        for process in self.processes:
            if process.state != "dead":
                stuck = [str(actor) for actor in process.actors if actor.state != "done"]
                require(not stuck, f"waits for ever: {', '.join(stuck)}")
                require(not process.core.tickets, f"tickets are left: {list(process.core.tickets)}")
        require(not self.etcd.keys, f"keys are left: {list(self.etcd.keys)}")

    def check_strays(self) -> None:
        """Where nothing is under way, a key has a ticket."""
        for process in self.processes:
            if process.is_renewed() and not (process.had_late or process.was_restored or self.flights):
                mine = {key for key, kv in self.etcd.keys.items() if kv.lease_id == process.number}
                require(mine <= process.core.tickets.keys(), f"session {process.number} has forgotten {mine}")

    def run_for(self, seconds: float, *, releases: bool = True) -> None:
        """Let all happen, and time run on."""
        until = self.now + seconds
        for _ in range(MOST):
            self.free_times = 0
            moves = [move for move in self.moves() if move[0] != "leave" and (releases or move[0] != "release")]
            if not moves and not releases and self.next_time() < until:
                moves = [("time",)]
            if not moves or self.now >= until:
                break
            self.make(moves[0])


def require(is_right: bool, text: str) -> None:
    """Raise `Violation` with this text if it is not so."""
    if not is_right:
        raise Violation(text)
