"""States and moves as a graph, whose paths are the orders: they are counted, and not walked."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import takewhile, zip_longest
from typing import Any

from labs.steps.schedules.purchases import Shown
from labs.steps.schedules.schedule import Done, Ending, Move


@dataclass
class State:
    """A state of the world."""

    number: int
    fingerprint: str = field(repr=False)  # see `labs.steps.schedules.fingerprint`
    path: list[Move]  # by which it was reached first
    shown: Shown = field(repr=False)
    moves: dict[Move, State | None] = field(default_factory=dict, repr=False)  # to where, once that was tried
    faults: dict[Move, str] = field(default_factory=dict, repr=False)  # if the budget has them, before which command
    done: dict[Move, Done] = field(default_factory=dict, repr=False)  # what was seen of each move that was tried
    ending: Ending | None = None  # if nothing can be done any more
    is_cut: bool = False  # something could be done, and was left out
    is_exhausted: bool = False  # nothing is untried here, nor in any state to which its moves lead

    def __getstate__(self) -> dict[str, Any]:
        """With numbers of states: a graph is pickled without recursion."""
        return {**vars(self), "moves": {move: to and to.number for move, to in self.moves.items()}}

    @property
    def untried(self) -> list[Move]:
        return [move for move, to in self.moves.items() if to is None]

    @property
    def has_fault(self) -> bool:
        """Whether a fault leads to it."""
        return any(move.is_fault for move in self.path)

    @property
    def is_wrong(self) -> bool:
        """Whether it is an end, and a wrong one."""
        return self.ending is not None and not self.ending.is_right

    @property
    def is_open(self) -> bool:
        """Whether not all of its moves were tried."""
        return self.is_cut or bool(self.untried)


@dataclass
class Graph:
    """What was explored. The root is the first state."""

    states: list[State] = field(default_factory=list)
    near: set[int] | None = None  # numbers of the states from which alone is gone on, if not from all

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for each in self.states:
            numbers: dict[Move, Any] = each.moves
            each.moves = {move: None if to is None else self.states[to] for move, to in numbers.items()}

    @property
    def ends(self) -> list[State]:
        """The states in which all is over; one that was cut is none."""
        return [state for state in self.states if state.ending is not None]

    @property
    def cut(self) -> int:
        """In how many states something was not tried."""
        return sum(state.is_open for state in self.states)

    def way_from(self, start: State) -> list[Move]:
        """The moves from here to the nearest one that is untried, with that one; none if there is none."""
        came: dict[int, tuple[State, Move] | None] = {start.number: None}
        following = deque([start])
        while following:
            state = following.popleft()
            if state.untried and (self.near is None or state.number in self.near):
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

    def add(self, moves: Iterable[tuple[State, Move]]) -> None:
        """Moves that are found to be possible in states that are known."""
        for state, move in moves:
            state.moves[move] = None
            self._open()

    def leave_far(self) -> None:
        """Where some end is wrong, go on from those states alone to which a shorter order leads than to the nearest."""
        near = {state.number for state, _ in takewhile(lambda each: not each[0].is_wrong, self.nearest_first())}
        if near != self.near:
            self.near = near
            self._open()

    def leave_one(self, moves: Sequence[Move]) -> None:
        """Keep one order alone; in its states, all other moves are untried."""
        order = [self.states[0]]
        for move in moves:
            order.append(order[-1].moves[move] or order[-1])
        for number, (state, move) in enumerate(zip_longest(order, moves)):
            state.number, state.moves = number, {each: to if each == move else None for each, to in state.moves.items()}
        self.states = order

    def _open(self) -> None:
        for state in self.states:
            state.is_exhausted = False

    def tried(self, state: State) -> tuple[Move, State] | None:
        """A move that was made, one that leads on to what is untried if there is any."""
        tried = [(move, to) for move, to in state.moves.items() if to is not None]
        return next((each for each in tried if not each[1].is_exhausted), tried[0] if tried else None)

    @property
    def is_wrong(self) -> bool:
        """Whether an end is."""
        return any(state.is_wrong for state in self.states)

    def shortest_of_each(self) -> Iterator[tuple[State, list[Done]]]:
        """Of the ends that are wrong in one way, that with the shortest order to it; the shortest comes first."""
        ways = {state.ending.ways[0] for state in self.states if state.ending and not state.ending.is_right}
        for state, moves in self.nearest_first() if ways else ():
            if state.ending and state.is_wrong and (way := state.ending.ways[0]) in ways:
                ways.remove(way)
                yield state, moves
            if not ways:
                return

    def nearest_first(self) -> Iterator[tuple[State, list[Done]]]:
        """States with the shortest orders to them: fewest faults, then changes of the purchase, then moves."""
        ways: list[tuple[int, int, int, tuple[str, ...], int, list[Done]]] = [(0, 0, 0, (), 0, [])]
        known = set[tuple[int, str]]()
        while ways:
            faults, changes, steps, path, number, done = heappop(ways)
            state, last = self.states[number], done[-1].move.buyer if done else ""
            if (number, last) in known:
                continue
            known.add((number, last))
            yield state, done
            for move, to in state.moves.items():
                if to is not None:
                    size = faults + move.is_fault, changes + (move.buyer != last), steps + 1
                    heappush(ways, (*size, (*path, str(move)), to.number, [*done, state.done[move]]))

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
