"""Several sessions' cores, an etcd and a bad network in virtual time, from one seed: deterministic simulation.

As FoundationDB and TigerBeetle (VOPR) test. Every source of change is here, and all of it is drawn from the seed: calls
that are lost, late or done twice; watches that lag, break, or leave a DELETE out; processes that pause beyond their
lease, or are killed; waits that time out, are cancelled or abandoned; keys that are deleted by hand; clients of other
languages; clocks that jump; an etcd that is restored from a backup. `Meddler` calls every public method of the core at
any moment, on tickets in every stage, and tells facts late or twice. A history that breaks a rule raises `Violation`.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lock.core import messages
from lock.core.acquisition import Acquisition, Ask, Terms, Wait
from lock.core.cohort import Bounds, Cohort, CohortTurn
from lock.core.core import Core
from lock.core.queue import Stage, Ticket
from lock.errors import EtcdUnavailable, LeaseNotFound, LockCancelled, LockError, LockLost, SessionLost
from lock.model import Declaration
from lock.recipes.read_write import ReadersTogether
from lock.recipes.semaphore import UpTo
from tests.support.failing_etcd import ForgetfulEtcd
from tests.support.simulated_pairs import Pair, add_pairs

TIMEOUT_S = 1.0  # of a call that an acquisition waits for
POLLS = 1000  # at most, of one process in one second
QUIET_S = 60.0  # in which everything has to end once the network is good again
TERMS = {
    "mutex": [Terms()],
    "read-write": [
        Terms(ReadersTogether(), Declaration("read"), "read/"),
        Terms(ReadersTogether(), Declaration("write"), "write/"),
    ],
    "read-write/read": [Terms()],
    "semaphore": [Terms(UpTo(2), Declaration("permit", 2))],
}


OUTAGES = [
    messages.Create, messages.Delete, messages.Delete, messages.ListQueues, messages.ListLease, messages.ReadKeys,
]  # fmt: skip


class Violation(AssertionError):
    """A rule was broken."""


@dataclass
class Held:
    """What a process believes to hold."""

    process: Process | None  # None: another client, that looks at etcd itself
    terms: Terms
    key: str
    token: tuple[int, int]  # the create revision, and the turn
    ticket: Ticket | None = None
    was_robbed: bool = False  # by a hand, or a restored etcd: then it may be told late

    def is_believed(self, world: World) -> bool:
        if self.process is None or self.ticket is None:
            return True
        core = self.process.core
        return self.process.is_alive and self.ticket.failure is None and core.remaining(self.process.now()) > 0.0


class World:
    """Time, the network, etcd and all processes; `trouble` is off when it is quiet."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.time = 0.0
        self.trouble = True
        self.log: list[str] = []
        self.etcd = ForgetfulEtcd(self.chance)
        self.held: dict[str, list[Held]] = {}
        self.fenced: dict[str, list[tuple[str, tuple[int, int]]]] = {}
        self.highest: dict[str, tuple[int, int]] = {}
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._leases = itertools.count(1)
        some = self.chance.sample(sorted(TERMS), self.chance.choice([1, 1, 2]))
        if "read-write" in some and self.chance.random() < 0.3:
            some = sorted({*some, "read-write/read"})  # whose keys stand where the readers' do
        self.names = {f"{kind}/": TERMS[kind] for kind in some}
        self.loss = self.chance.choice([0.0, 0.05, 0.2])
        self.deaf = self.chance.choice([0.0, 0.0, 0.1])
        self.timeout = self.chance.choice([TIMEOUT_S, TIMEOUT_S, 5.0])  # of the calls that a process makes for itself
        self.idle = self.chance.choice([0.2, 0.2, 1.0, 5.0])  # for how long a queue is followed after its last waiter
        self.longest = self.chance.choice([0.5, 3.0])  # of a hold
        self.linger = self.chance.choice([[0.0], [0.1, 0.5]])  # of cohorts
        self.rest = self.chance.choice([0.2, 3.0])  # of an actor between two acquisitions, at most
        self.is_sluggish = self.chance.random() < 0.2  # deletions fail, holds and pauses are long
        if self.is_sluggish:
            self.loss, self.idle, self.longest, self.rest = 0.0, 0.2, 3.0, 4.0
        self.outages: list[tuple[type, float, float]] = []  # calls of this kind get no answer from then till then
        self.processes = [Process(self) for _ in range(self.chance.choice([1, 2, 2, 3]))]

    # Time

    def at(self, delay: float, do: Callable[[], object]) -> None:
        heapq.heappush(self._events, (self.time + delay, next(self._numbers), do))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.time, _, do = heapq.heappop(self._events)
            self.etcd.expire(self.time)
            do()
        self.time = until
        self.etcd.expire(self.time)

    def note(self, text: str) -> None:
        self.log.append(f"{self.time:8.3f}  {text}")

    def require(self, is_right: bool, text: str) -> None:
        if not is_right:
            self.note(f"VIOLATION: {text}")
            raise Violation("\n".join([*self.log[-200:], text]))

    def delay(self) -> float:
        return self.chance.choice([0.001, 0.002, 0.005, 0.02]) * (1 + self.chance.random())

    # Rules

    def grant(self, name: str, held: Held) -> None:
        """A hold begins: whoever else believes to hold has to fit."""
        others = [other for other in self.held.get(name, []) if other.is_believed(self) and not other.was_robbed]
        self.held[name] = [*others, held]
        self.note(f"{held.key} holds {name} with {held.token}")
        if held.was_robbed:
            return
        kinds = [each.terms.declared.kind for each in sorted([*others, held], key=lambda each: each.token)]
        rule = self.names[name][0].rule
        for place, kind in enumerate(kinds):
            ahead = Counter(before for before in kinds[:place] if before is not None)
            shared = kind is not None and kind != "write" and not {None, "write"} & set(kinds[:place])
            fits = not place or (shared and rule.admits(kind or "", ahead))
            self.require(fits, f"two hold {name}: {[each.key for each in (*others, held)]}")
        if rule == Terms().rule:
            self.require(held.token > self.highest.get(name, (0, 0)), f"the token of {name} does not rise")
            self.highest[name] = held.token
            for key, token in self.fenced.get(name, []):
                is_open = token != held.token and self.etcd.has(key, token[0])
                self.require(not is_open, f"{key} of {name} is a fence, and still there")

    def fence(self, name: str, key: str, token: tuple[int, int]) -> None:
        """A condition is given for a hold of this token: nobody else may hold while it is true."""
        others = [
            held for held in self.held.get(name, [])
            if self.names[name][0].rule == Terms().rule and held.is_believed(self) and not held.was_robbed
            and held.token != token
        ]  # fmt: skip
        self.require(not others, f"{key} gives a condition for {token}, and another one holds {name}")
        self.fenced.setdefault(name, []).append((key, token))

    def over(self, name: str, held: Held) -> None:
        self.note(f"{held.key} ends its hold of {name}")
        if held in self.held.get(name, []):
            self.held[name].remove(held)

    # Trouble

    def is_out(self, kind: type) -> bool:
        """Whether calls of a kind get no answer at this moment."""
        return self.trouble and any(which is kind and begin <= self.time < end for which, begin, end in self.outages)

    def rob(self) -> None:
        """Delete a key by hand."""
        ours = [kv for kv in self.etcd.keys.values() if kv.key.startswith(tuple(self.names))]
        if ours:
            kv = self.chance.choice(ours)
            self.note(f"{kv.key} is deleted by hand")
            for held in itertools.chain(*self.held.values()):
                held.was_robbed = held.was_robbed or (held.key, held.token[0]) == (kv.key, kv.create_revision)
            for process in self.processes:
                process.robbed.add((kv.key, kv.create_revision))
            self.etcd.remove([kv.key])

    def restore(self) -> None:
        if not self.etcd.restore(self.time):
            return
        self.note(f"etcd is restored to revision {self.etcd.revision}")
        self.etcd.remove([key for key in self.etcd.keys if key.endswith("-go")])  # other clients may be gone by now
        self.highest.clear()
        self.fenced.clear()
        for held in itertools.chain(*self.held.values()):
            held.was_robbed = True
        for process in self.processes:
            process.was_restored = True

    def stranger(self) -> None:
        """Another client queues as Go's does, holds when its key is first, and leaves."""
        name = self.chance.choice(sorted(self.names))
        kv = self.etcd.put(f"{name}{next(self._numbers):x}-go", b"", 0)
        self.note(f"{kv.key} queues as {kv.create_revision}")
        held = Held(None, Terms(), kv.key, (kv.create_revision, 0))
        epoch, patience = self.etcd.epoch, self.time + self.chance.choice([0.5, 5.0])

        def look() -> None:
            if not self.etcd.has(kv.key, kv.create_revision):
                return
            if self.etcd.epoch != epoch:
                self.etcd.remove([kv.key])
                return
            if self.etcd.under(name)[0].key == kv.key:
                self.grant(name, held)
                self.at(self.chance.random() * 0.3, leave)
            elif self.time > patience:
                self.etcd.remove([kv.key])
            else:
                self.at(0.01, look)

        def leave() -> None:
            self.over(name, held)
            if self.etcd.has(kv.key, kv.create_revision):
                self.etcd.remove([kv.key])

        look()


class RecordedCore(Core):
    """A core that knows which tickets it had and which facts it was told, for `Meddler`."""

    def __init__(self, world: World, *args: Any, **options: Any) -> None:
        self.had: list[Ticket] = []
        self.facts: list[tuple[int, Callable[[float], object]]] = []  # each with the epoch of etcd
        self._world = world
        super().__init__(*args, **options)

    def begin(self, *args: Any, **options: Any) -> Ticket:
        ticket = super().begin(*args, **options)
        self.had.append(ticket)
        return ticket

    def written(self, ticket: Ticket, answer: messages.Written, now: float) -> bool:
        tell = super().written
        self._note(lambda now: tell(ticket, answer, now))
        return tell(ticket, answer, now)

    def gone(self, ticket: Ticket, *, was_there: bool) -> None:
        tell = super().gone
        self._note(lambda now: tell(ticket, was_there=was_there))
        tell(ticket, was_there=was_there)

    def rob(self, ticket: Ticket, now: float) -> None:
        tell = super().rob
        self._note(lambda now: tell(ticket, now))
        tell(ticket, now)

    def answered(self, request: messages.Request, answer: Any, now: float) -> None:
        tell = super().answered
        self._note(lambda now: tell(request, answer, now))
        tell(request, answer, now)

    def _note(self, tell: Callable[[float], object]) -> None:
        self.facts.append((self._world.etcd.epoch, tell))


class Process:
    """A process with one session: what `lock.session.engine` does with threads, done by events."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_alive = True
        self.paused_until = 0.0
        self._held_up: list[Callable[[], object]] = []
        self.offset = world.chance.random() * 100
        self.actors: list[Actor | Pair] = []
        self.turns: list[CohortTurn] = []  # all that there were
        self.robbed: set[tuple[str, int]] = set()
        self.was_restored = False
        self._watches: dict[str, Watch] = {}
        self._polls_at = math.inf
        self._polls: Counter[int] = Counter()  # by second
        self.begin_session()

    def begin_session(self) -> None:
        world = self.world
        lease, ttl = next(world._leases), world.chance.choice([1, 2, 5])
        world.etcd.grant(lease, ttl, world.time)
        self.core = RecordedCore(world, lease, ttl, self.now(), owner=f"process {lease}")
        self.core.following.idle_s = world.idle
        bounds = Bounds(
            world.chance.choice([1, 3]), world.chance.choice([0.0, 0.05]), world.chance.choice(world.linger)
        )
        self.cohort = Cohort(self.core, "shop", "mutex/", bounds, TIMEOUT_S)
        self._watches = {}
        core = self.core
        world.at(ttl / 3, lambda: self.renew(core))
        self.poll_at(0.0)

    def now(self) -> float:
        """Its own clock."""
        return self.world.time + self.offset

    def deliver(self, do: Callable[[], object]) -> None:
        """Something happens to it, when it runs."""
        if not self.is_alive:
            return
        if self.world.time < self.paused_until:
            self._held_up.append(do)
            return
        do()
        self.flush()

    def resume(self) -> None:
        """It runs again, and everything that came meanwhile arrives in its order."""
        if self.world.time < self.paused_until:
            return
        held_up, self._held_up = self._held_up, []
        for do in held_up:
            self.deliver(do)

    def flush(self) -> None:
        core = self.core
        while core.news:
            news, core.news = core.news, []
            for ticket in news:
                if isinstance(ticket, Ticket):
                    self.judge(ticket)
                if ticket.wake is not None:
                    ticket.wake()
        if core.orders or core.is_early:
            core.is_early = False
            self.poll_at(0.0)

    def judge(self, ticket: Ticket) -> None:
        """A loss is told only where there was one."""
        failure = ticket.failure
        if type(failure) is LockLost and ticket.created is not None and not self.was_restored:
            is_there = self.world.etcd.has(ticket.key, ticket.created)
            # A write that came twice may have brought back a key of this name that was deleted between the two.
            was_lost = ticket.in_doubt and any(
                key == ticket.key for key, created in self.robbed if created < ticket.created
            )
            self.world.require(was_lost or not is_there, f"{ticket.key} is told to be lost, and is there")

    def poll_at(self, delay: float) -> None:
        self.world.at(delay, lambda: self.deliver(self.poll))

    def poll(self) -> None:
        core = self.core
        second = int(self.world.time)
        self._polls[second] += 1
        self.world.require(self._polls[second] < POLLS, f"process of lease {core.lease_id} looks again and again")
        due = core.poll(self.now())
        orders, core.orders = core.orders, []
        core.is_early = False
        for order in orders:
            self.carry_out(order)
        if core.failure is not None:
            return
        when = max(due, self.now())
        if not self.now() < self._polls_at <= when:
            self._polls_at = when
            self.poll_at(when - self.now() + 1e-6)

    def carry_out(self, order: messages.Order) -> None:
        core = self.core
        match order:
            case messages.Follow():
                self._watches[order.prefix] = Watch(self, order.prefix)
            case messages.Reopen() if order.prefix in self._watches:
                self._watches[order.prefix].open()
            case messages.Unfollow():
                watch = self._watches.pop(order.prefix, None)
                if watch is not None:
                    watch.close()
            case messages.Renew():
                self.renew(core, again=False)
            case messages.ListLease():
                ask = lambda: self.world.etcd.list_lease(core.lease_id)  # noqa: E731
                answered = lambda answer: core.answered(order, answer, self.now())  # noqa: E731
                self.call(type(order), ask, answered, self.failing(core.failed, order), timeout=self.world.timeout)
            case messages.Delete() | messages.ListQueues() | messages.ReadKeys():
                answered = lambda answer: core.answered(order, answer, self.now())  # noqa: E731
                unanswered = (
                    (lambda: core.deletions.doubt(order)) if isinstance(order, messages.Delete) else lambda: None
                )
                self.send(order, answered, self.failing(core.failed, order), unanswered, timeout=self.world.timeout)

    def failing(self, failed: Callable[..., object], request: object) -> Callable[[LockError], object]:
        return lambda error: failed(request, error, self.now())

    def send(
        self,
        request: Any,
        answered: Any,
        failed: Any,
        unanswered: Callable[[], object] = lambda: None,
        timeout: float = TIMEOUT_S,
    ) -> None:
        do = lambda: self.world.etcd.serve(request)  # noqa: E731
        self.call(type(request), do, answered, failed, unanswered, timeout)

    def call(
        self,
        kind: type,
        do: Callable[[], Any],
        answered: Any,
        failed: Any,
        unanswered: Callable[[], object] = lambda: None,
        timeout: float = TIMEOUT_S,
    ) -> None:
        """A call of etcd and what becomes of it."""
        world, chance, core = self.world, self.world.chance, self.core
        fate = (
            chance.choice(["before", "after", "late", "twice", "slow"])
            if world.trouble and chance.random() < world.loss
            else ""
        )
        if world.is_out(kind):
            fate = "before"

        def arrive() -> None:
            try:
                answer = do()
            except LeaseNotFound as error:
                told, what = failed, error
            else:
                told, what = answered, answer
            slowly = chance.random() * timeout if fate == "slow" else 0.0
            world.at(world.delay() + slowly, lambda: self.deliver(lambda: told(what) if self.core is core else None))

        def give_up() -> None:
            unanswered()
            failed(EtcdUnavailable("lost"))

        if fate in ("", "slow"):
            world.at(world.delay(), arrive)
            return
        if fate == "after" or fate == "late":
            world.at(world.delay() if fate == "after" else chance.random() * 4.0, lambda: _swallow(do))
        elif fate == "twice":
            world.at(chance.random() * 4.0, lambda: _swallow(do))
            unanswered()
            world.at(0.3, arrive)
            return
        refused_or_silent = chance.choice([0.05, timeout])
        world.at(refused_or_silent, lambda: self.deliver(lambda: give_up() if self.core is core else None))

    def fence(self, name: str, held: Ticket | CohortTurn) -> None:
        """A condition for a transaction of the hold, which may arrive at any time; raises where there is none."""
        if isinstance(held, CohortTurn):
            held.fence(self.now())
        else:
            self.core.fence(held, self.now())
        ticket = held if isinstance(held, Ticket) else held.ticket
        assert ticket is not None
        # Of a key that a hand has deleted the condition is false for ever, and its holder may be told late.
        if not self.was_restored and (ticket.key, ticket.created) not in self.robbed:
            token = ticket.created or 0, held.number if isinstance(held, CohortTurn) else 0
            self.world.fence(name, ticket.key, token)

    def end_turn(self, turn: CohortTurn, ended: Callable[[], object] = lambda: None) -> None:
        """End a turn, whoever has it."""
        if turn.cohort.turn is turn and turn.ticket is not None:
            self.over(turn.ticket)
        try:
            ticket = turn.end(self.now())
        except LockError:
            ticket = None
        if ticket is None:
            ended()
        else:
            self.release(ticket, ended)

    def release(self, ticket: Ticket, ended: Callable[[], object] = lambda: None) -> None:
        """End the hold of a ticket, whoever has it; `ended` is called when that is over, or was not possible."""
        core = self.core
        self.over(ticket)
        try:
            request = core.release(ticket, self.now())
        except LockError:
            request = None
        if request is None:
            ended()
            return

        def told(tell: Callable[..., object], what: object) -> None:
            tell(request, what, self.now())
            ended()

        self.send(
            request,
            lambda answer: told(core.deletions.answered, answer),
            lambda error: told(core.deletions.failed, error),
            lambda: core.deletions.doubt(request),
        )

    def believe(self, name: str, terms: Terms, ticket: Ticket, turn: int = 0) -> Held:
        """A hold begins."""
        assert ticket.created is not None
        held = Held(self, terms, ticket.key, (ticket.created, turn), ticket)
        held.was_robbed = self.was_restored or (ticket.key, ticket.created) in self.robbed
        if held.is_believed(self.world):
            self.world.grant(name, held)
        return held

    def over(self, ticket: Ticket) -> None:
        """A hold ends."""
        for name, holds in self.world.held.items():
            for held in [held for held in holds if held.ticket is ticket]:
                self.world.over(name, held)

    def renew(self, core: Core, *, again: bool = True) -> None:
        """Renew the lease, now and after each third of its TTL."""

        def do() -> None:
            if core.failure is not None or core is not self.core:
                return
            sent = self.now()
            renewed = lambda ttl: core.renewed(sent, ttl, self.now())  # noqa: E731
            keep_alive = lambda: self.world.etcd.keep_alive(core.lease_id, self.world.time)  # noqa: E731
            self.call(messages.Renew, keep_alive, renewed, lambda error: None)
            if again:
                self.world.at(core.ttl / 3, lambda: self.renew(core))

        self.deliver(do)

    def kill(self) -> None:
        self.world.note(f"process of lease {self.core.lease_id} is killed")
        self.is_alive = False
        for watch in self._watches.values():
            watch.close()

    def pause(self, seconds: float) -> None:
        self.world.note(f"process of lease {self.core.lease_id} pauses for {seconds:.1f} s")
        self.paused_until = self.world.time + seconds
        self.world.at(seconds, self.resume)


class Watch:
    """A watch of one prefix, with a lag."""

    def __init__(self, process: Process, prefix: str) -> None:
        self._process = process
        self._prefix = prefix
        self._is_closed = False
        self._life = 0
        self.open()

    def open(self) -> None:
        """Have etcd watch from a moment from now on."""
        world, core = self._process.world, self._process.core
        world.etcd.listeners.pop(self, None)
        self._life += 1
        life = self._life

        def stand() -> None:
            if not self._is_closed and life == self._life:
                self._position, self._epoch = world.etcd.revision, world.etcd.epoch
                pause = world.delay()
                self._busy_until = world.time + pause  # what it tells comes after that it stands
                world.at(pause, lambda: self.tell(life, lambda now: core.following.told(self._prefix, [], now)))
                world.etcd.listeners[self] = self.follow
                if world.trouble and world.chance.random() < 0.3:
                    world.at(world.chance.random() * 3.0, lambda: self.cut(life))

        world.at(world.delay(), stand)

    def close(self) -> None:
        self._is_closed = True
        self._process.world.etcd.listeners.pop(self, None)

    def cut(self, life: int) -> None:
        """The stream breaks, and is opened again."""
        world, core = self._process.world, self._process.core
        if self._is_closed or life != self._life:
            return
        world.etcd.listeners.pop(self, None)
        self._life += 1
        again = self._life
        world.at(
            world.delay(),
            lambda: self.tell(again, lambda now: core.following.told(self._prefix, EtcdUnavailable("cut"), now)),
        )
        pause = world.chance.choice([0.0, 0.1 + world.chance.random()])
        world.at(pause, lambda: None if again != self._life else self.open())

    def tell(self, life: int, do: Callable[[float], object]) -> None:
        process = self._process
        core = process.core

        def told() -> None:
            if not self._is_closed and life == self._life and process.core is core:
                do(process.now())

        process.deliver(told)

    def follow(self) -> None:
        """Tell what has happened since; in order, whatever the lag."""
        world, core, life = self._process.world, self._process.core, self._life
        if not self._process.is_alive:
            self.close()
        elif self._epoch != world.etcd.epoch:
            self.cut(life)
        else:
            events = world.etcd.events(self._prefix, self._position)
            self._position = world.etcd.revision
            told = [event for _, some in events for event in some]
            if world.trouble and world.deaf:
                told = [each for each in told if not each.deleted or world.chance.random() >= world.deaf]
            if told:
                lag = world.delay() + (world.chance.random() if world.trouble and world.chance.random() < 0.05 else 0.0)
                self._busy_until = max(world.time + lag, self._busy_until + 1e-6)
                changed = lambda now: core.following.told(self._prefix, told, now)  # noqa: E731
                world.at(self._busy_until - world.time, lambda: self.tell(life, changed))


class Actor:
    """A thread that acquires, holds and releases, again and again."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.world = process.world
        self.is_done = False
        self._turn = 0
        self._acquisition: Acquisition | CohortTurn | None = None
        self._held: Held | None = None
        self._takes_turns = process.world.chance.random() < 0.5
        self.begin()

    def begin(self) -> None:
        process, chance = self.process, self.world.chance
        if not self.world.trouble or not process.is_alive:
            self.is_done = True
            return
        if process.core.failure is not None:
            self.is_done = True
            return
        self.name = chance.choice(sorted(self.world.names))
        self.terms = chance.choice(self.world.names[self.name])
        timeout = chance.choice([0.0, 0.05, 0.5, math.inf, math.inf])
        kind = chance.choice(["try", "wait", "wait", "wait"]) if timeout else "zero"
        now = process.now()
        value = b"{}" if self.terms.declared.kind is None else _value(self.terms)
        ways = {
            "deadline": now + (0.0 if kind == "try" else timeout),
            "tries": kind != "wait",
            "explains": kind == "zero",
        }
        if self._takes_turns and self.name == "mutex/":
            self._acquisition = CohortTurn(process.cohort, now, value=b"{}", **ways)  # type: ignore[arg-type]
            process.turns.append(self._acquisition)
            self.start(f"a turn of process {process.core.lease_id}", f"{kind} for {timeout} s")
            return
        try:
            self._acquisition = Acquisition(
                process.core,
                "shop",
                self.name,
                self.terms,
                value,
                now,
                timeout=TIMEOUT_S,
                owner=self,
                **ways,  # type: ignore[arg-type]
            )
        except (SessionLost, LockCancelled):  # the session is over, or drains
            self.is_done = True
            return
        self.start(self._acquisition.ticket.key, f"{kind} for {timeout} s")

    def start(self, label: str, how: str) -> None:
        process, chance = self.process, self.world.chance
        self._turn += 1
        self._label = label
        self.world.note(f"{label} begins, {how}")
        if chance.random() < 0.15:
            turn, means = self._turn, chance.choice(["cancel", "abandon", "forget"])
            self.world.at(chance.random() * 0.5, lambda: process.deliver(lambda: self.interrupt(turn, means)))
        self.step(self._turn)

    def interrupt(self, turn: int, means: str) -> None:
        """The wait is cancelled, or its task is, or a KeyboardInterrupt left no trace of it."""
        acquisition = self._acquisition
        if turn != self._turn or acquisition is None or self._held is not None:
            return
        core, now = self.process.core, self.process.now()
        if means == "cancel":
            if isinstance(acquisition, CohortTurn):
                acquisition.cancel(LockCancelled("cancelled"), now)
            else:
                core.cancel(acquisition.ticket, LockCancelled("cancelled"), now)
            return
        self.world.note(f"{self._label}: {means}")
        self._turn += 1
        self._acquisition = None
        if means == "abandon" or isinstance(acquisition, CohortTurn):
            acquisition.leave(now)
        else:
            acquisition.ticket.waiter = _Collected()
        self.later()

    def later(self) -> None:
        chance = self.world.chance
        pause = chance.random() * chance.choice([0.2, self.world.rest])
        self.world.at(pause, lambda: self.process.deliver(self.begin))

    def step(self, turn: int) -> None:
        """The next step of its acquisition."""
        acquisition, process = self._acquisition, self.process
        if turn != self._turn or acquisition is None or self._held is not None:
            return
        try:
            step = acquisition.next(process.now())
        except LockError as error:
            self.world.note(f"{self._label} fails: {type(error).__name__}")
            if isinstance(acquisition, CohortTurn):
                acquisition.leave(process.now())
            self.end_turn()
            process.flush()
            return
        if isinstance(step, Ask):
            self.ask(acquisition, step, turn)
        elif isinstance(step, Wait):
            acquisition.wakes.wake = lambda: self.world.at(0.0, lambda: process.deliver(lambda: self.step(turn)))
            if step.until < math.inf:
                delay = max(step.until - process.now(), 0.0)
                self.world.at(delay + 1e-6, lambda: process.deliver(lambda: self.step(turn)))
        elif acquisition.is_held:
            self.hold(acquisition)
        else:
            self.end_turn()
        process.flush()

    def ask(self, acquisition: Acquisition | CohortTurn, step: Ask, turn: int) -> None:
        process, request = self.process, step.request

        def go_on(tell: Callable[..., object], what: object) -> None:
            tell(request, what, process.now())
            self.step(turn)

        answered = lambda answer: go_on(acquisition.answered, answer)  # noqa: E731
        failed = lambda error: go_on(acquisition.failed, error)  # noqa: E731
        if isinstance(request, messages.TimeToLive):
            leases = self.world.etcd.leases
            ask = lambda: leases.get(request.lease_id, (-1, 0.0))[0]  # noqa: E731
            process.call(messages.TimeToLive, ask, answered, failed)
        elif isinstance(request, messages.Create):
            process.send(request, answered, failed, acquisition.unanswered)
        else:
            process.send(request, answered, failed)

    def hold(self, acquisition: Acquisition | CohortTurn) -> None:
        process, ticket, chance = self.process, acquisition.ticket, self.world.chance
        assert ticket is not None
        assert ticket.created is not None
        number = acquisition.number if isinstance(acquisition, CohortTurn) else 0
        self.world.require(process.core.remaining(process.now()) > 0.0, f"{ticket.key} holds without a lease")
        self._held = process.believe(self.name, self.terms, ticket, number)
        ticket.waiter = None
        if chance.random() < 0.2:
            process.fence(self.name, acquisition if isinstance(acquisition, CohortTurn) else ticket)
        if chance.random() < 0.1 and not isinstance(acquisition, CohortTurn):
            process.core.expire_in(ticket, 0.1, "max_hold", process.now())
        if chance.random() < 0.1:
            process.core.contended(ticket, process.now())
        turn = self._turn
        seconds = chance.choice([0.0, 0.01, 0.1, self.world.longest])
        self.world.at(seconds, lambda: process.deliver(lambda: self.release(turn)))

    def release(self, turn: int) -> None:
        held = self._held
        if held is None or turn != self._turn:
            return
        assert held.ticket is not None
        if isinstance(self._acquisition, CohortTurn):
            self.process.end_turn(self._acquisition, self.end_turn)
        else:
            self.process.release(held.ticket, self.end_turn)

    def end_turn(self) -> None:
        self._acquisition = self._held = None
        self._turn += 1
        self.later()


class Meddler:
    """Callers that call anything at any moment, and facts that are told again."""

    def __init__(self, world: World, end: float) -> None:
        self.world = world
        calls = 0 if world.is_sluggish else world.chance.choice([0, 0, 10, 100, 300])
        for _ in range(calls):
            world.at(world.chance.random() * end, self.meddle)

    def meddle(self) -> None:
        process = self.world.chance.choice(self.world.processes)
        process.deliver(lambda: self.call(process))

    def call(self, process: Process) -> None:
        """One method, on a ticket of today or of long ago; it answers, or raises what callers are told."""
        chance, core = self.world.chance, process.core
        if chance.random() < 0.1:
            self.tell_again(process)
            return
        if chance.random() < 0.002:
            core.drain(process.now())
            return
        if process.turns and chance.random() < 0.3:
            self.meddle_with_turn(process)
            return
        if not core.had:
            return
        ticket = chance.choice(core.had[-8:] if chance.random() < 0.7 else core.had)
        what = chance.choice(["contended", "expire", "release", "leave", "cancel", "check", "fence"])
        if chance.random() < 0.8 and ticket.stage in (Stage.WRITING, Stage.QUEUED, Stage.HELD):
            what = chance.choice(["contended", "check", "fence"])  # or no hold would ever last
        if isinstance(ticket.owner, Cohort):
            what = chance.choice(["contended", "check", "cancel"])  # callers reach the rest by their turns
        self.world.note(f"{ticket.key} ({ticket.stage.name}): {what}")
        with contextlib.suppress(LockError):
            self._call(process, ticket, what)

    def _call(self, process: Process, ticket: Ticket, what: str) -> None:
        core, chance, now = process.core, self.world.chance, process.now()
        match what:
            case "contended":
                core.contended(ticket, now)
            case "expire":
                core.expire_in(ticket, chance.choice([0.0, 0.1, 1.0]), "max_hold", now)
            case "release":
                process.release(ticket)
            case "leave":
                process.over(ticket)
                core.leave(ticket, now)
            case "cancel":
                core.cancel(ticket, LockCancelled("cancelled"), now)
            case "check":
                core.check(ticket, now)
            case "fence":
                process.fence(ticket.queue.prefix, ticket)

    def meddle_with_turn(self, process: Process) -> None:
        chance = self.world.chance
        turn = chance.choice(process.turns[-6:] if chance.random() < 0.7 else process.turns)
        what = chance.choice(["fence", "next", "next", "end", "leave", "cancel"])
        if turn.cohort.turn is turn and chance.random() < 0.8:
            what = "next"
        self.world.note(f"turn {turn.number}: {what}")
        with contextlib.suppress(LockError):
            match what:
                case "fence":
                    process.fence("mutex/", turn)
                case "end":
                    process.end_turn(turn)
                case "leave":
                    if turn.cohort.turn is turn and turn.ticket is not None:
                        process.over(turn.ticket)
                    turn.leave(process.now())
                case "cancel":
                    turn.cancel(LockCancelled("cancelled"), process.now())
                case "next" if turn.is_held:  # else its driver alone may do a step
                    turn.next(process.now())

    def tell_again(self, process: Process) -> None:
        """A fact of this etcd; it may be old, and it is true."""
        core = process.core
        if core.facts and core.failure is None:
            epoch, tell = self.world.chance.choice(core.facts[-30:])
            if epoch == self.world.etcd.epoch:
                tell(process.now())


def simulate(seed: int) -> World:
    """Run one history; raises `Violation`."""
    world = World(seed)
    chance, end = world.chance, world.chance.choice([3.0, 8.0])
    for process in world.processes:
        process.actors = [Actor(process) for _ in range(chance.choice([1, 2, 3, 5]))]
    add_pairs(world, seed)
    Meddler(world, end)
    if world.is_sluggish:
        world.outages.append((messages.Delete, chance.random(), end))
    for kind in chance.choices(OUTAGES, k=chance.choice([0, 1, 2])):
        begin = chance.random() * end
        world.outages.append((kind, begin, begin + chance.choice([1.0, 7.0])))
    for _ in range(chance.choice([0, 2, 6])):
        world.at(chance.random() * end, world.stranger)
    for _ in range(chance.choice([0, 0, 1, 3])):
        world.at(chance.random() * end, world.rob)
    for process in world.processes:
        if chance.random() < 0.4:
            world.at(chance.random() * end, lambda p=process: p.pause(chance.choice([0.3, 1.5, 6.0])))  # type: ignore[misc]
        if chance.random() < 0.15:
            world.at(chance.random() * end, process.kill)
        if chance.random() < 0.1:
            jump = chance.choice([0.5, 3.0])
            world.at(chance.random() * end, lambda p=process, s=jump: setattr(p, "offset", p.offset + s))  # type: ignore[misc]
    if chance.random() < 0.15:
        moment = chance.random() * end
        world.at(moment, world.etcd.back_up)
        world.at(moment + chance.random() * 2.0, world.restore)
    world.run(end)
    world.trouble = False
    world.note("quiet")
    world.run(end + QUIET_S)
    check_quiet(world)
    return world


def check_quiet(world: World) -> None:
    """Every wait has ended, and nothing is left."""
    for process in world.processes:
        if process.is_alive:
            waiting = [actor for actor in process.actors if not actor.is_done]
            world.require(not waiting, f"{len(waiting)} threads wait for ever")
            stuck = [(ticket.key, ticket.stage) for ticket in process.core.tickets.values()]
            world.require(not stuck, f"tickets are left: {stuck}")
    left = [kv.key for kv in world.etcd.keys.values() if not kv.key.endswith("-go")]
    world.require(not left, f"keys are left: {left}")


def _value(terms: Terms) -> bytes:
    import json

    return json.dumps({key: value for key, value in terms.declared._asdict().items() if value is not None}).encode()


class _Collected:
    """A weak reference to an acquisition that the garbage collector has taken."""

    def __call__(self) -> None: ...


def _swallow(do: Callable[[], object]) -> None:
    with contextlib.suppress(LeaseNotFound):
        do()
