"""Every history of a small world: each state once, the shortest history to each first.

(VeriSoft explores the shipping code in this way, TLC models: Godefroid, "Model Checking for Programming Languages using
VeriSoft", POPL 1997.) A state that was reached is copied, never replayed.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.lock.core.reduction import needed
from tests.lock.core.small_world import Plan, Violation, World
from tests.lock.core.states import dump, load, tidy

Move = tuple[Any, ...]


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
    """Goes through all states of one world, breadth first; `seconds` are of the CPU, whatever else the machine does."""

    def __init__(self, plan: Plan, faults: int, *, seconds: float = 60.0, most: int = 2_000_000) -> None:
        self._plan, self._faults = plan, faults
        self._seconds, self._most = seconds, most
        self._numbers: dict[bytes, int] = {}
        self._from: list[tuple[int, Move]] = []
        self._next: list[list[int]] = []

    def run(self) -> Found:
        """Try everything until a rule is broken, or the time is over."""
        began, found = time.process_time(), Found()
        waiting: deque[tuple[int, bytes]] = deque()
        state = dump(World(self._plan, self._faults))
        self._add(state, -1, ())
        waiting.append((0, state))
        number, move = 0, Move()
        try:
            while waiting:
                if time.process_time() - began > self._seconds or len(self._from) > self._most:
                    break
                number, state = waiting.popleft()
                world = load(state)
                moves = world.moves()
                if not [each for each in moves if each[0] not in ("time", "release", "leave") and not is_fault(each)]:
                    move = ("settle",)
                    load(state).settle()
                    found.ends += 1
                for place, move in enumerate(needed(world, moves)):
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
        found.states, found.seconds = len(self._from), time.process_time() - began
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
        tidy(world)
        world.make(move)
    return world
