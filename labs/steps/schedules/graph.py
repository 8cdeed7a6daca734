"""States and moves as a graph, whose paths are the orders: they are counted, and not walked."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from labs.steps.schedules.schedule import Ending, Move
from labs.steps.schedules.world import Shown


@dataclass
class State:
    """A state of the world.

    Attributes:
        picture: see `labs.steps.schedules.picture`.
        path: the moves by which it was reached first.
        shown: what the scheduler's page shows of it.
        moves: what can be done there, and the state to which it leads, once that was tried.
        ending: what came of it, if nothing can be done any more.
        is_cut: whether something could be done, and was left out.
        is_bounded: whether others were left out, because a purchase is not interrupted any more.
        is_exhausted: whether nothing is untried here, nor in any state to which its moves lead.
    """

    number: int
    picture: str = field(repr=False)
    path: list[Move]
    shown: Shown = field(repr=False)
    moves: dict[Move, State | None] = field(default_factory=dict, repr=False)
    ending: Ending | None = None
    is_cut: bool = False
    is_bounded: bool = False
    is_exhausted: bool = False

    @property
    def untried(self) -> list[Move]:
        return [move for move, to in self.moves.items() if to is None]

    @property
    def is_open(self) -> bool:
        """Whether not all of its moves were tried."""
        return self.is_cut or bool(self.untried)


@dataclass
class Graph:
    """What was explored. The root is the first state."""

    states: list[State] = field(default_factory=list)

    @property
    def ends(self) -> list[State]:
        """The states in which all is over; one that was cut is none."""
        return [state for state in self.states if state.ending is not None]

    @property
    def cut(self) -> int:
        """In how many states something was not tried."""
        return sum(state.is_open for state in self.states)

    @property
    def bounded(self) -> int:
        """In how many states others were left out, because a purchase is not interrupted any more."""
        return sum(state.is_bounded for state in self.states)

    def way_from(self, start: State) -> list[Move]:
        """The moves from here to the nearest one that is untried, with that one; none if there is none."""
        came: dict[int, tuple[State, Move] | None] = {start.number: None}
        following = deque([start])
        while following:
            state = following.popleft()
            if state.untried:
                way, step = [state.untried[0]], came[state.number]
                while step is not None:
                    way.append(step[1])
                    step = came[step[0].number]
                return way[::-1]
            for move, to in state.moves.items():
                if to is not None and not to.is_exhausted and to.number not in came:
                    came[to.number] = state, move
                    following.append(to)
        for number in came:
            self.states[number].is_exhausted = True
        return []

    def tried(self, state: State) -> tuple[Move, State] | None:
        """A move that was made, one that leads on to what is untried if there is any."""
        tried = [(move, to) for move, to in state.moves.items() if to is not None]
        return next((each for each in tried if not each[1].is_exhausted), tried[0] if tried else None)

    @property
    def shortest(self) -> State | None:
        """The wrong end that is reached with the fewest changes from one purchase to another."""
        wrong = [state for state in self.ends if state.ending and not state.ending.is_right]
        return min(wrong, key=lambda state: size_of(state.path), default=None)

    def orders(self) -> Counter[str]:
        """How many paths there are: in "all", that end wrongly in "wrong", and of each kind of wrong.

        A path that comes to a state again, where two purchases undo each other's work, is not counted.
        """
        counts: dict[int, Counter[str]] = {}
        for state in self._children_first():
            if state.ending is not None:
                counts[state.number] = Counter({"all": 1, **state.ending.kinds})
            else:
                reached = (counts.get(to.number) for to in state.moves.values() if to is not None)
                counts[state.number] = sum(filter(None, reached), Counter())
        return counts[self.states[0].number] if self.states else Counter()

    def _children_first(self) -> Iterator[State]:
        """Depth first, without recursion; an edge back to a state on the way is left out."""
        if not self.states:
            return
        root = self.states[0]
        way, seen = [(root, iter(list(root.moves.values())))], {root.number}
        while way:
            state, following = way[-1]
            for to in following:
                if to is not None and to.number not in seen:
                    seen.add(to.number)
                    way.append((to, iter(list(to.moves.values()))))
                    break
            else:
                way.pop()
                yield state


def size_of(path: list[Move]) -> tuple[int, int, int]:
    """By which the shortest is found: faults, how often another purchase goes on, and the steps."""
    changes = sum(move.buyer != after.buyer for move, after in pairwise(path))
    return sum(move.is_fault for move in path), changes, len(path)
