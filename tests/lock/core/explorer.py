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
        is_complete: whether all was tried.
        violation: the rule that was broken, and the shortest history that does it.
    """

    states: int = 0
    seconds: float = 0.0
    is_complete: bool = False
    violation: str = ""
    history: list[Move] = field(default_factory=list)


class Explorer:
    """Goes through all states of one world, breadth first; `seconds` are of the CPU, whatever else the machine does."""

    def __init__(self, plan: Plan, faults: int, *, seconds: float = 60.0) -> None:
        self._plan, self._faults, self._seconds = plan, faults, seconds
        self._reached: set[bytes] = set()
        self._from: list[tuple[int, Move]] = []

    def run(self) -> Found:
        """Try everything until a rule is broken, or the time is over."""
        began, found = time.process_time(), Found()
        waiting: deque[tuple[int, bytes]] = deque()
        self._add(dump(World(self._plan, self._faults)), -1, (), waiting)
        number, move = 0, Move()
        try:
            while waiting:
                if time.process_time() - began > self._seconds:
                    break
                number, state = waiting.popleft()
                world = load(state)
                moves = world.moves()
                if not [each for each in moves if each[0] not in ("time", "release", "leave") and not is_fault(each)]:
                    move = ("settle",)
                    load(state).settle()
                for place, move in enumerate(needed(world, moves)):
                    world = load(state) if place else world
                    world.make(move)
                    self._add(dump(world), number, move, waiting)
            else:
                found.is_complete = True
        except (Violation, AssertionError, KeyError, AttributeError, ValueError, IndexError) as error:
            found.violation = str(error) or repr(error)
            found.history = [*self._history(number), *([move] if move != ("settle",) else [])]
        found.states, found.seconds = len(self._from), time.process_time() - began
        return found

    def _add(self, state: bytes, before: int, move: Move, waiting: deque[tuple[int, bytes]]) -> None:
        """Have a state tried that was not reached before."""
        digest = hashlib.blake2b(state, digest_size=16).digest()
        if digest not in self._reached:
            self._reached.add(digest)
            waiting.append((len(self._from), state))
            self._from.append((before, move))

    def _history(self, number: int) -> list[Move]:
        moves: list[Move] = []
        while number > 0:
            number, move = self._from[number]
            moves.append(move)
        return moves[::-1]


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
