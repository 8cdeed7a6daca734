"""Every order of a guard's moves: states and moves are a graph, and each move of each state is made once.

A run goes from the first state to an end, and makes on its way as many moves as it can that were not made before. A
state is known again by its picture. Where it is reached in another way, one of its moves is made once more too; that
has to lead to the same picture as before, and so has the way to what is untried. Where it does not, the guard depends
on something that nobody sees: there is no verdict.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from app.contract.outcomes import Outcome, Promise
from app.guards.base import Guard
from labs.steps.schedules.graph import Graph, State
from labs.steps.schedules.schedule import Done, Ending, Fault, Move, Schedule
from labs.steps.schedules.world import Stepped, Unsettled, World
from labs.steps.shop import POINTS
from loadtest.results.fence import past_fence
from loadtest.results.record import CriticalSection
from loadtest.results.verdict import judge_rush

MOST_MOVES = 200  # of one order
MOST_S = 600.0  # of one guard with one kind of fault


class Unsteady(Unsettled):
    """One picture had two futures."""


@dataclass(frozen=True)
class Budget:
    """Which faults may be done in an order, and how many; with `commands`, answers are lost to such alone."""

    kinds: tuple[Fault, ...] = ()
    most: int = 1
    commands: tuple[str, ...] = ("",)

    @property
    def faults(self) -> int:
        """In one order, at most."""
        return self.most if self.kinds else 0

    @property
    def name(self) -> str:
        """By which the table and the file tell of it."""
        if self.most > 1:
            return f"{self.most}-faults"
        return self.kinds[0].value if self.kinds else Fault.NONE.value


NO_FAULT = Budget()
A_PAUSE_OR_A_DEATH = Budget((Fault.PAUSE, Fault.KILL, Fault.KILL_SENT))
PAUSE, KILL, LOST = Budget((Fault.PAUSE,)), Budget((Fault.KILL, Fault.KILL_SENT)), Budget((Fault.LOST,))


def budgets_of(guard: type[Guard], most: int) -> list[Budget]:
    """What is done to a guard: nothing to one that promises nothing, and each kind of fault to all others."""
    if guard.promise is Promise.NONE or not most:
        return [NO_FAULT]
    budgets = [NO_FAULT, PAUSE, KILL, LOST]
    if most > 1:
        pauses = PAUSE.kinds if guard.promise is Promise.EXACT else ()
        budgets.append(Budget((*pauses, *KILL.kinds, *LOST.kinds), most))
    return budgets


def budget_of(mistake: type[Any]) -> Budget:
    """The faults with which a mistake goes wrong, if it says so."""
    fault = getattr(mistake, "fault", None)
    budget = next((each for each in budgets_of(mistake, 1) if each.name == fault), A_PAUSE_OR_A_DEATH)
    return replace(budget, commands=getattr(mistake, "lost", ("",)))


class Explorer:
    """Tries all moves of one guard within one budget of faults.

    Args:
        world: is started.
        known: have explored the guard with fewer faults; what they found is not tried again.
        seconds: after which the rest is left out.
        shows: what a page shows tells states apart, too, as where purchases are over for other reasons.
        is_over_at_wrong: of a guard that is wrong, only the shortest order that shows it is looked for.

    Attributes:
        graph: what was found; it grows.
    """

    def __init__(
        self,
        world: World,
        guard: type[Guard],
        budget: Budget = NO_FAULT,
        *,
        known: Sequence[Explorer] = (),
        seconds: float = MOST_S,
        shows: bool = False,
        is_over_at_wrong: bool = False,
    ) -> None:
        self._is_over_at_wrong = is_over_at_wrong
        self._world, self._guard, self.budget, self._seconds, self._shows = world, guard, budget, seconds, shows
        self._states: dict[str, State] = {}
        self._done: list[Done] = []
        self._writers: set[str] = set()  # scripts that were seen to change something
        self._withheld: dict[str, list[tuple[State, Move]]] = {}  # lost answers of scripts that were not
        self.graph = Graph()
        self.schedules: dict[int, Schedule] = {}  # of each end, by the number of its state
        for each in known:
            if set(each.budget.kinds) <= set(budget.kinds):
                self._take_over(each)

    def __getstate__(self) -> dict[str, Any]:
        """What explorers of other worlds take over."""
        return {name: vars(self)[name] for name in ("budget", "graph", "schedules", "_writers")}

    def explore(self) -> Iterator[Graph]:
        """The graph, after each run; complete at the end, or cut. Raises ServerError or SaleError."""
        until = time.monotonic() + self._seconds
        with self._world.with_spare() if KILL.kinds[0] in self.budget.kinds else ExitStack():
            self._warm_up()
            state = self._start()
            while time.monotonic() < until:
                if not (way := self.graph.way_from(state)):
                    if state is self.graph.states[0]:
                        break
                    state = self._start()
                    continue
                for move in way[:-1]:
                    self._make(move)
                    state = state.moves[move] or state
                if len(way) > 1:
                    self._compare(state)
                state = self._go_on(state, way[-1])
                yield self.graph
            self._make_shortest()

    def replay(self, moves: list[Move]) -> Schedule:
        """One order as it is given, to its end or as far as it goes."""
        self.budget = Budget(tuple(Fault), len(moves))
        with self._world.with_spare() if any(move.fault in KILL.kinds for move in moves) else ExitStack():
            self._warm_up()
            self._begin()
            for move in moves:
                self._make(move)
            return self._judged()

    def _warm_up(self) -> None:
        """Each instance makes a purchase: it knows the sale then, and Redis its scripts."""
        self._begin()
        for _ in range(MOST_MOVES):
            if purchase := next((each for each in self._world.purchases if each.can_step), None):
                self._world.step(purchase.buyer)

    def _begin(self) -> None:
        self._world.reset(self._guard.name)
        self._done = []

    def _start(self) -> State:
        if self._is_over_at_wrong:
            self.graph.leave_far()
        self._begin()
        if self.graph.states:
            self._compare(self.graph.states[0])
        return self._state()

    def _make_shortest(self) -> None:
        """Make the shortest order that ends wrongly, if it was put together from several runs: people see it."""
        if (shortest := self.graph.shortest()) is None:
            return
        end, moves = shortest
        if self.schedules[end.number].moves != moves:
            self._begin()
            for done in moves:
                self._make(done.move)
            self._compare(end)
            self.schedules[end.number] = self._judged()

    def _go_on(self, state: State, move: Move) -> State:
        """Make a move that is untried; if it leads to a known state, one of the moves there as well."""
        states, made = len(self.graph.states), self._make(move)
        following = state.moves[move] = self._state()
        state.done[move] = made
        if len(self.graph.states) == states and (tried := self.graph.tried(following)):
            again, following = tried
            self._make(again)
            self._compare(following)
        return following

    def _compare(self, state: State) -> None:
        """The world has to be in this state, which was reached before."""
        if self._picture() != state.picture:
            raise self._unsteady(state)

    def _unsteady(self, state: State) -> Unsteady:
        one, other = (" ".join(map(str, path)) for path in (state.path, [done.move for done in self._done]))
        mine, theirs = state.picture, self._picture()
        alike = next((place for place, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), len(mine))
        begins = max(alike - 60, 0)
        apart = f"{mine[begins:][:160]!r} and {theirs[begins:][:160]!r}"
        return Unsteady(
            f"{self._guard.name} depends on something that nobody sees, such as a clock or a random number: "
            f"{one} and {other} lead from one state to two: {apart}"
        )

    def _state(self) -> State:
        """That in which the world is now; it is added, if it is new."""
        picture = self._picture()
        if known := self._states.get(picture):
            return known
        state = State(len(self._states), picture, [done.move for done in self._done], self._world.shown())
        self._look_at_moves(state)
        if not state.moves and not state.is_cut:
            self.schedules[state.number] = schedule = self._judged()
            state.ending = schedule.ending
        self._add(state)
        return state

    def _add(self, state: State) -> None:
        """A new state, with the faults that the budget has for it."""
        self._states[state.picture] = state
        self.graph.states.append(state)
        if sum(move.is_fault for move in state.path) >= self.budget.most:
            return
        for move, command in state.faults.items():
            if move.fault not in self.budget.kinds:
                continue
            script = script_of(command)
            if move.fault is not Fault.LOST or (
                command.startswith(self.budget.commands) and (not script or script in self._writers)
            ):
                state.moves.setdefault(move, None)
            elif command.startswith(self.budget.commands):
                self._withheld.setdefault(script, []).append((state, move))

    def _take_over(self, known: Explorer) -> None:
        self._writers |= known._writers
        for state in known.graph.states:
            if state.picture not in self._states:
                self._add(replace(state, number=len(self._states), moves={}, done={}, is_exhausted=False))
        for state in known.graph.states:
            mine = self._states[state.picture]
            tried = {move: self._states[to.picture] for move, to in state.moves.items() if to is not None}
            mine.moves = {**dict.fromkeys(state.moves), **mine.moves, **tried}
            mine.done |= state.done
            if state.number in known.schedules:
                self.schedules[mine.number] = known.schedules[state.number]

    def _make(self, move: Move) -> Done:
        world, purchase = self._world, self._world.purchase(move.buyer)
        before = purchase.point
        command = purchase.command if move.fault not in (Fault.PAUSE, Fault.KILL) else ""
        data = world.data()
        if move.fault is Fault.PAUSE:
            world.pause(move.buyer)
        elif move.fault in KILL.kinds:
            world.kill(move.buyer, behind_command=move.fault is Fault.KILL_SENT)
        else:
            world.step(move.buyer, loses_answer=move.fault is Fault.LOST)
        if (script := script_of(command)) and script not in self._writers and world.data() != data:
            self._writers.add(script)
            self.graph.add(self._withheld.pop(script, ()))
        enters = purchase.point == "locked" and before != "locked"
        self._done.append(Done(move, purchase.point, purchase.waits, command, enters, purchase.failure))
        return self._done[-1]

    def _picture(self) -> str:
        """That of the world and of what limits the moves: the faults so far, and who is not interrupted any more."""
        restless = "".join(sorted(each.buyer for each in self._restless()))
        shown = self._world.shown() if self._shows else ""
        return f"{self._world.picture()}\n{shown}\nfaults {self._faults}, restless {restless}"

    @property
    def _faults(self) -> int:
        return sum(done.move.is_fault for done in self._done)

    def _restless(self) -> list[Stepped]:
        """Purchases that have begun more sections than there are purchases: two that undo each other's work go on."""
        begun = Counter(done.move.buyer for done in self._done if done.enters)
        return [each for each in self._world.purchases if begun[each.buyer] > len(self._world.purchases)]

    def _look_at_moves(self, state: State) -> None:
        """What can be done now; whether something is left out, and whether that is to interrupt a restless purchase.

        The purchase that moved last is the first.
        """
        can_step = [each for each in self._world.purchases if each.can_step]
        if len(self._done) >= MOST_MOVES:
            state.is_cut = bool(can_step)
            return
        last = self._done[-1].move.buyer if self._done else ""
        can_step.sort(key=lambda each: (each.buyer != last, each.buyer))
        restless = [each for each in can_step if each in self._restless()]
        state.is_bounded = bool(restless) and len(can_step) > 1
        can_step = restless[:1] or can_step
        state.moves = dict.fromkeys(Move(each.buyer) for each in can_step)
        state.faults = {Move(each.buyer, kind): each.command for each in can_step for kind in Fault if _can(kind, each)}

    def _judged(self) -> Schedule:
        world = self._world
        ledger, left = world.ledger()
        answers = [each.answer() for each in world.purchases]
        sections: list[CriticalSection] = world.sections()
        # By its commands, a purchase takes the time of a read or a write before it stops there.
        has_times = self._guard.promise is Promise.EXACT and world.grain == POINTS
        late = len(past_fence(sections)) if has_times else 0
        verdict = judge_rush(
            stock=world.items, stock_left=left, ledger=ledger, answers=answers, slack_ms=0.0, past_fence=late
        )
        # Who is in doubt and in no ledger has bought nothing here: an item that is not sold is there for others.
        is_left = len(ledger) < world.items
        ending = Ending.of(
            verdict,
            premature=sum(each.outcome is Outcome.SOLD_OUT for each in answers) if is_left else 0,
            vanished=world.items - len(ledger) - left,
            has_fault=self._faults > 0,
            stuck=sum(not each.is_over for each in world.purchases),
        )
        return Schedule(self._guard.name, list(self._done), ending, left, answers, ledger, sections)


def _can(kind: Fault, purchase: Stepped) -> bool:
    """Whether this fault can be done to it, where it stands."""
    if kind is Fault.NONE or not purchase.has_begun or purchase.instance.frozen:
        return False
    if kind is Fault.LOST:
        return purchase.writes
    if kind is Fault.KILL:  # to others, a death before a later command is one behind the command before
        return not purchase.sent
    return kind is Fault.PAUSE or bool(purchase.command)


def script_of(command: str) -> str:
    """The script that a command runs, such as "EVALSHA read.lua"; empty if it runs none."""
    name, *arguments = command.split(maxsplit=2)[:2] or [""]
    return f"{name} {''.join(arguments)}" if name in ("EVAL", "EVALSHA", "FCALL") else ""
