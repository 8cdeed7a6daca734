"""Random walks through larger worlds, each from one seed: deterministic simulation, as FoundationDB tests.

The seed draws who wants what, which faults there are and how frequent each kind of step is, so that no two walks look
alike (Groce and others, "Swarm Testing", ISSTA 2012): in some, watches lag and time runs, in others, calls are lost.
"""

from __future__ import annotations

import inspect
import random
from dataclasses import replace
from typing import Any

from lock.core import messages
from lock.core.queue import Ticket
from tests.lock.core import faults
from tests.lock.core.explorer import Move, is_fault
from tests.lock.core.small_world import Plan, Violation, Want, World
from tests.lock.core.worlds import LOCK, ONE, PERMIT, READ, TURN, WRITE

PAIR = [ONE, Want(("a/",)), Want(("b/",))]
NESTED = [READ, WRITE, Want(("rw/read/",))]  # whose keys stand where the readers' do
SOME: list[list[Want]] = [[LOCK], [TURN], [LOCK, TURN], [LOCK, TURN, PERMIT], [READ, WRITE], NESTED, [PERMIT], PAIR]
CALLS = [messages.Create, messages.Delete, messages.ListQueues, messages.ListLease, messages.ReadKeys]
KINDS = [
    name for name, move in vars(faults).items()
    if inspect.isfunction(move) and name[0] != "_" and name not in ("faults_of", "meddle_with")
]  # fmt: skip
PAST = ["contended", "fence", "expire_in", "check", "release", "leave", "cancel"]


def plan(chance: random.Random) -> Plan:
    """Up to three sessions of up to four threads."""
    wants = chance.choice(SOME)

    def want() -> Want:
        timeout = chance.choice([0.0, 0.05, 0.5, *[float("inf")] * 5])
        tries = not timeout or chance.random() < 0.2
        return replace(
            chance.choice(wants), timeout=timeout, tries=tries, explains=tries and chance.random() < 0.5,
            fence=chance.random() < 0.2, waits=chance.random() < 0.8, max_hold=chance.choice([0.0] * 9 + [0.1]),
        )  # fmt: skip

    return Plan(
        tuple(
            tuple(tuple(want() for _ in range(chance.choice([1, 3, 6]))) for _ in range(chance.choice([1, 2, 4])))
            for _ in range(chance.choice([1, 2, 2, 3]))
        ),
        times=10**9, linger=chance.choice([0.0, 0.1, 0.6]), batch=chance.choice([1, 2, 3]),
        kinds=tuple(chance.choice([[], chance.sample(KINDS, 1), chance.sample(KINDS, 4)])),
    )  # fmt: skip


class Walk:
    """A walk that `run` makes; it raises `Violation` with the last steps."""

    def __init__(self, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self.world = World(plan(chance), 0)
        self._is_sluggish = chance.random() < 0.2  # no deletion succeeds
        for process in self.world.processes:
            process.core.following.idle_s = 0.2 if self._is_sluggish else chance.choice([0.2, 1.0, 5.0])
        self._rate = chance.choice([0.0, 0.02, 0.1])  # of faults
        self._meddling = chance.choice([0.0, 0.1])  # with what is over
        self._weights: dict[str, float] = {}
        self._past: list[dict[int, Ticket]] = [{} for _ in self.world.processes]
        self.steps: list[Move] = []

    def run(self) -> None:
        outage, ends = None, 0
        try:
            for number in range(self._chance.choice([50, 200, 500])):
                if number >= ends:
                    outage = self._chance.choice([*CALLS, *[None] * 10]) if self._rate else None
                    ends = number + 30
                self._lose(messages.Delete if self._is_sluggish else outage)
                moves = self._moves()
                if not moves:
                    break
                self._make(self._draw(moves))
            self.world.settle()
        except (AssertionError, KeyError, IndexError) as error:
            raise Violation(
                "; ".join(" ".join(map(str, step)) for step in self.steps[-100:]) + f"\n{error!r}"
            ) from error

    def _moves(self) -> list[Move]:
        world = self.world
        world.faults = int(self._chance.random() < self._rate)
        moves = world.moves()
        return [move for move in moves if is_fault(move)] or moves if world.faults else moves

    def _draw(self, moves: list[Move]) -> Move:
        """First what kind of step, then which of these."""
        kinds = list({move[0]: None for move in moves})
        for kind in kinds:
            rare = 0.02 if kind in ("time", "kill", "drain", "pause", "starve", "jump", "restore") else 0.2
            self._weights.setdefault(kind, self._chance.choice([rare, 1.0, 3.0]))
        (kind,) = self._chance.choices(kinds, [self._weights[kind] for kind in kinds])
        return self._chance.choice([move for move in moves if move[0] == kind])

    def _make(self, move: Move) -> None:
        self.steps.append(move)
        self.world.make(move)
        for process, past in zip(self.world.processes, self._past, strict=True):
            past |= {id(ticket): ticket for ticket in process.core.tickets.values()}
            tickets: list[Any] = [
                ticket for ticket in past.values() if not isinstance(ticket.owner, type(process.cohort))
            ]
            if tickets and process.state == "runs" and self._chance.random() < self._meddling:
                ticket, what = self._chance.choice(tickets), self._chance.choice(PAST)
                if ticket.key not in process.core.tickets:
                    self.steps.append(("meddle_with", ticket.key, what))
                    faults.meddle_with(self.world, process, ticket, what)
                    self.world.check()

    def _lose(self, kind: type | None) -> None:
        """During an outage, etcd gets no call of this kind."""
        for flight in [each for each in self.world.flights if type(each.request) is kind and each.stage == "sent"]:
            if flight.process.state == "runs":
                self._make(("lose", self.world.flights.index(flight)))


def walk(seed: int) -> Walk:
    """Make one; raises `Violation`."""
    made = Walk(seed)
    made.run()
    return made
