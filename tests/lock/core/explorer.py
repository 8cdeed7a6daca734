"""Every history of a small world: each state once, the shortest history to each first.

A state is told by its content, in which times count from now and revisions by their order, so that two histories which
differ only in when they began meet. (VeriSoft explores the shipping code in this way, TLC models: Godefroid, "Model
Checking for Programming Languages using VeriSoft", POPL 1997.) A state that was reached is copied, never replayed.
"""

from __future__ import annotations

import copyreg
import hashlib
import io
import itertools
import pickle
import re
import time
import weakref
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from lock import errors
from lock.core import messages
from lock.core.acquisition import Acquisition, Terms
from lock.core.admission import Exclusive, Frontier
from lock.core.cohort import Bounds, Cohort, CohortTurn
from lock.core.core import Core
from lock.core.deletions import Deletions
from lock.core.expiry import Expiry
from lock.core.following import Following
from lock.core.grants import Grants
from lock.core.queue import Queue, Stage, Ticket
from lock.core.reconciler import Reconciler
from lock.core.together import Together
from lock.core.view import QueueView
from lock.errors import LockError
from lock.model import Event, KeyValue
from lock.recipes.read_write import ReadersTogether
from lock.recipes.semaphore import UpTo
from tests.lock.core.small_world import Actor, Etcd, Flight, Hold, Key, Names, Plan, Process, Revision, Time, Value, Violation, Want, Watch, World

Move = tuple[Any, ...]
_WRITTEN, _RANKED = 0x5A5A0000, 0x5B5B0000  # what stands for a revision in a dump: first as it is, then its place
_constants: list[Any] = []
_places: dict[int, int] = {}


def _constant(number: int) -> Any:
    return _constants[number]


def _reduce_constant(value: Any) -> Any:
    """Values that never change: one object serves all copies."""
    if id(value) not in _places:
        _places[id(value)] = len(_constants)
        _constants.append(value)
    return _constant, (_places[id(value)],)


def _revision(ranked: int) -> Revision:
    return Revision(ranked - _RANKED)


def _dead() -> None: ...


def _reference(target: Any) -> Any:
    return _dead if target is None else weakref.ref(target)


def _reduce_failure(failure: LockError) -> Any:
    return type(failure), ("",)  # whatever it says


_ALWAYS: dict[type, Any] = {
    **dict.fromkeys([Plan, Want, Terms, Bounds, re.Pattern, Stage, Key, Value, Exclusive], _reduce_constant),
    **dict.fromkeys([ReadersTogether, UpTo], _reduce_constant),
    **dict.fromkeys([each for each in vars(errors).values() if isinstance(each, type)], _reduce_failure),
    weakref.ref: lambda reference: (_reference, (reference(),)),
    itertools.count: lambda numbers: (itertools.count, (int(repr(numbers)[6:-1]),)),
}


_SHORT = [
    Acquisition, Actor, Cohort, CohortTurn, Core, Counter, Deletions, Etcd, Event, Expiry, Flight, Following, Frontier,
    Grants, Hold, KeyValue, Names, OrderedDict, Process, Queue, QueueView, Reconciler, Ticket, Time, Together, Watch, World,
    _constant, _dead, _reference, _revision,
]  # fmt: skip
for _number, _one in enumerate(_SHORT, 200):
    copyreg.add_extension(_one.__module__, _one.__qualname__, _number)


def dump(world: World) -> bytes:
    """The state, as bytes that are equal for equal states; times as distances from now, revisions as their order."""
    world.etcd.keys = dict(sorted(world.etcd.keys.items()))
    world.etcd.watches = dict(sorted(world.etcd.watches.items()))
    world.etcd.history = []
    now, revisions = float(world.now), set[int]()

    def reduce_revision(value: Revision) -> Any:
        number = int(value)
        revisions.add(number)
        return _revision, (_WRITTEN + number,)

    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5)
    pickler.dispatch_table = {
        **_ALWAYS, Revision: reduce_revision, Time: lambda value: (Time, (round(float(value) - now, 6),)),
    }  # fmt: skip
    pickler.dump(world)
    state = file.getvalue()
    for place, revision in enumerate(sorted(revisions), 1):  # only their order counts
        state = state.replace(_integer(_WRITTEN + revision), _integer(_RANKED + place))
    return state


def _integer(number: int) -> bytes:
    return pickle.BININT + number.to_bytes(4, "little")


def load(state: bytes) -> World:
    world: World = pickle.loads(state)
    return world


@dataclass
class Found:
    """What an exploration has found.

    Attributes:
        states: different ones.
        histories: paths from the beginning to an end; 0 where they were not counted.
        is_complete: whether all was tried.
        violation: the rule that was broken, and the shortest history that does it.
    """

    states: int = 0
    ends: int = 0
    histories: int = 0
    seconds: float = 0.0
    is_complete: bool = False
    violation: str = ""
    history: list[Move] = field(default_factory=list)


class Explorer:
    """Goes through all states of one world, breadth first."""

    def __init__(self, plan: Plan, faults: int, *, seconds: float = 60.0, most: int = 2_000_000) -> None:
        self._plan, self._faults = plan, faults
        self._seconds, self._most = seconds, most
        self._numbers: dict[bytes, int] = {}
        self._from: list[tuple[int, Move]] = []
        self._next: list[list[int]] = []

    def run(self) -> Found:
        """Try everything until a rule is broken, or the time is over."""
        began, found = time.monotonic(), Found()
        waiting: deque[tuple[int, bytes]] = deque()
        state = dump(World(self._plan, self._faults))
        self._add(state, -1, ())
        waiting.append((0, state))
        number, move = 0, Move()
        try:
            while waiting:
                if time.monotonic() - began > self._seconds or len(self._from) > self._most:
                    break
                number, state = waiting.popleft()
                world = load(state)
                moves = world.moves()
                if not [each for each in moves if each[0] not in ("time", "release") and not is_fault(each)]:
                    move = ("settle",)
                    load(state).settle()
                    found.ends += 1
                for place, move in enumerate(moves):
                    world = load(state) if place else world
                    world.make(move)
                    after = dump(world)
                    reached, is_new = self._add(after, number, move)
                    self._next[number].append(reached)
                    if is_new:
                        waiting.append((reached, after))
            else:
                found.is_complete = True
                found.histories = self._count()
        except (Violation, AssertionError, KeyError, AttributeError, ValueError, IndexError) as error:
            found.violation = str(error) or repr(error)
            found.history = [*self._history(number), *([move] if move != ("settle",) else [])]
        found.states, found.seconds = len(self._from), time.monotonic() - began
        return found

    def _add(self, state: bytes, before: int, move: Move) -> tuple[int, bool]:
        digest = hashlib.blake2b(state, digest_size=16).digest()
        number = self._numbers.setdefault(digest, len(self._from))
        is_new = number == len(self._from)
        if is_new:
            self._from.append((before, move))
            self._next.append([])
        return number, is_new

    def _history(self, number: int) -> list[Move]:
        moves: list[Move] = []
        while number > 0:
            number, move = self._from[number]
            moves.append(move)
        return moves[::-1]

    def _count(self) -> int:
        """The paths from the first state to an end; 0 where the states have a cycle."""
        paths: dict[int, int] = {}
        stack, open_states = [(0, iter(self._next[0]))], {0}
        while stack:
            number, rest = stack[-1]
            for after in rest:
                if after in open_states:
                    return 0
                if after not in paths:
                    stack.append((after, iter(self._next[after])))
                    open_states.add(after)
                    break
            else:
                stack.pop()
                open_states.discard(number)
                paths[number] = sum(paths[after] for after in self._next[number]) or 1
        return paths[0]


def is_fault(move: Move) -> bool:
    """Whether the move takes one of the faults."""
    return not hasattr(World, f"_{move[0]}")


def replay(plan: Plan, faults: int, history: list[Move]) -> World:
    """The world after these moves; raises what the last one raises."""
    world = World(plan, faults)
    for move in history:
        world.make(move)
    return world
