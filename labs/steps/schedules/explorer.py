"""Every order of a guard's moves: states and moves are a graph, and each move of each state is made once.

A run goes from the first state to an end, and makes on its way as many moves as it can that were not made before. A
state is known again by its fingerprint. Where it is reached in another way, one of its moves is made once more too;
that has to lead to the same fingerprint as before, and so has the way to what is untried, and an end has to be judged
alike. Where it does not, the guard depends on something that nobody sees: there is no verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from app.contract.outcomes import Outcome, Promise
from app.guards.base import Guard
from labs.steps.guard_files import GuardFile
from labs.steps.schedules.fingerprint import INSTEAD, difference
from labs.steps.schedules.graph import Graph, State
from labs.steps.schedules.instances import InstanceLost
from labs.steps.schedules.purchases import PURCHASE, Stepped
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.schedule import Done, Ending, Fault, Move, Schedule
from labs.steps.schedules.world import PASSES_S, World
from labs.steps.stepped import COMMANDS
from loadtest.results.audit import Audit

MOST_MOVES = 200  # of one order
MOST_S = 600.0  # of one guard with one kind of fault
SHORTER_S = 90.0  # for which a shorter order than the first wrong one is looked for, where that is enough
HOURS_S = 10_000.0  # more than any purchase waits
ROUNDS, TRIES = 6, 20  # of tries in vain, behind which it is believed that a purchase goes on so
CHECK_S = 5.0  # how often it is looked up whether all that was sent was seen


class Nondeterministic(NoVerdict):
    """One fingerprint had two futures."""


@dataclass(frozen=True)
class Budget:
    """Of which kinds the one fault of an order may be; with `commands`, answers are lost to such alone."""

    kinds: tuple[Fault, ...] = ()
    commands: tuple[str, ...] = ("",)

    @property
    def name(self) -> str:
        """By which the table and the file tell of it."""
        return self.kinds[0].value if self.kinds else Fault.NONE.value


NO_FAULT = Budget()
PAUSE, KILL, LOST = Budget((Fault.PAUSE,)), Budget((Fault.KILL, Fault.KILL_SENT)), Budget((Fault.LOST,))


def budgets_of(guard: type[Guard]) -> list[Budget]:
    """What is done to a guard: nothing to one that promises nothing, and each kind of fault to all others."""
    return [NO_FAULT] if guard.promise is Promise.NONE else [NO_FAULT, PAUSE, KILL, LOST]


def budget_of(mistake: type[Any]) -> Budget:
    """The faults with which a mistake goes wrong."""
    budget = next(each for each in budgets_of(mistake) if each.name == mistake.fault)
    return replace(budget, commands=mistake.lost)


class Task(NamedTuple):
    """What is tried of a guard."""

    file: GuardFile
    budget: Budget = NO_FAULT
    items: int = 1  # this, the next and `granularity`: see `World`
    buyers: int = 2
    seconds: float = MOST_S  # after which the rest is left out
    known: Explorer | None = None  # has explored the guard without a fault; what it found is not tried again
    granularity: str = COMMANDS
    shows: bool = False  # what a page shows tells states apart, too, as where purchases are over for other reasons
    is_over_at_wrong: bool = False  # of a guard that is wrong, only the shortest order that shows it is looked for
    is_first_enough: bool = False  # stop at the first wrong order


class Explorer:
    """Tries all moves of one guard within one budget of faults, in a world that is started; may raise BrokenGuard."""

    def __init__(self, world: World, task: Task) -> None:
        self._world, self._task, self.guard = world, task, task.file.load()
        world.items, world.buyers, world.granularity = task.items, task.buyers, task.granularity
        self._states: dict[str, State] = {}
        self._done: list[Done] = []
        self._writers: set[str] = set()  # scripts that were seen to change something
        self._withheld: dict[str, list[tuple[State, Move]]] = {}  # lost answers of scripts that were not
        self.graph = Graph()  # what was found; it grows
        self.schedules: dict[int, Schedule] = {}  # of each end, by the number of its state, as it was made first
        # At the end, for each way of being wrong the shortest order, made once more as it stands there.
        self.shortest: list[Schedule] = []
        self._checked = self._until = 0.0
        self._forgets_attempts = True
        if task.known is not None:
            self._take_over(task.known)

    def __getstate__(self) -> dict[str, Any]:
        """What an explorer in another world takes over."""
        return {name: vars(self)[name] for name in ("graph", "schedules", "_writers", "_forgets_attempts")}

    def explore(self) -> Iterator[Graph]:
        """The graph, after each run; complete at the end, or cut. Raises ServerError, BrokenGuard or SaleError."""
        try:
            yield from self._explore()
        except InstanceLost as lost:
            raise NoVerdict(f"an instance is lost, by its guard or on a machine that is too busy: {lost}") from lost

    def _explore(self) -> Iterator[Graph]:
        self._until, world = time.monotonic() + self._task.seconds, self._world
        world.forgets_attempts = self._forgets_attempts
        self._begin()  # nothing of another guard goes on
        world.begin_to_see_all()
        self._warm_up()
        may_count, differs = self._task.known is None, None
        try:
            yield from self._try_all()
        except Nondeterministic as error:
            if not may_count:
                raise
            differs = error
        else:
            may_count = may_count and self._loses_patience()
        if may_count:  # a purchase may count its attempts: they tell states apart
            self._forgets_attempts = world.forgets_attempts = False
            self._states, self.graph, self.schedules = {}, Graph(), {}
            yield from self._try_all()
            if differs is not None and self.graph.cut and not self.graph.is_wrong:  # it seems not to count
                raise differs
        self._make_shortest()
        if self._task.known is None and not (self._task.is_over_at_wrong or self.graph.cut or self.graph.is_wrong):
            self._check_clock()
        world.check_all_was_seen()

    def _try_all(self) -> Iterator[Graph]:
        state = self._start()
        while time.monotonic() < self._until and not (self._task.is_first_enough and self.graph.is_wrong):
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
            if time.monotonic() > self._checked + CHECK_S:
                self._world.check_all_was_seen()
                self._checked = time.monotonic()
            yield self.graph

    def _loses_patience(self) -> bool:
        """Whether a purchase that tries in vain again and again does something else in the end."""
        for place, purchase in enumerate(self._world.purchases):
            if state := next(self._in_vain(place), None):
                self._go_to(state)
                if not all(self._world.tries_in_vain(purchase.buyer, TRIES) for _ in range(ROUNDS)):
                    return True
        return False

    def _in_vain(self, place: int) -> Iterator[State]:
        """The states in which a purchase tries in vain."""
        stands, waits = PURCHASE.index("stands"), PURCHASE.index("waits")
        for state in self.graph.states:
            row = state.shown.purchases[place]
            if row[stands] and row[waits] and not state.has_fault:
                yield state

    def _check_clock(self) -> None:
        """Raise NoVerdict if a purchase that tries in vain is told what is not true, once its clock has moved on."""
        for place, buyer in enumerate([each.buyer for each in self._world.purchases]):
            for state in self._in_vain(place):
                if not self._gives_up(state, buyer):
                    break  # it has no limit of time

    def _gives_up(self, state: State, buyer: str) -> bool:
        self._go_to(state)
        world, purchase = self._world, self._world.purchase(buyer)
        if purchase.stock_read is None:
            purchase.instance.ask("move_clock", PASSES_S)
            self._tries_on(purchase)
            if purchase.stock_read is not None and purchase.outcome == Outcome.SOLD.value:
                return True  # it has taken the lock over, as it does with a pause: that is judged there
        purchase.instance.ask("move_clock", HOURS_S)
        if self._tries_on(purchase):
            return False
        while other := next((each for each in world.purchases if each.can_step), None):
            world.step(other.buyer)
        if not (purchase.failure or self._judged().ending.is_right):
            told, way = purchase.outcome, " ".join(map(str, state.path))
            raise NoVerdict(
                f"not every order was tried: time stands still, but behind {way} {buyer} waits no longer by its clock "
                f"and is told {told}, which is wrong. Raise LockTimeout there, and let Redis or etcd end locks"
            )
        return True

    def _tries_on(self, purchase: Stepped) -> bool:
        """Whether it tries in vain twice more; in the first try it may have looked at the clock before."""
        tries = 0
        for _ in range(MOST_MOVES):
            if purchase.stands:
                self._world.step(purchase.buyer)
            tries += purchase.stands and purchase.waits
            if tries == 2 or purchase.is_over:
                break
        return tries == 2

    def _go_to(self, state: State) -> None:
        """Begin a run, and come to this state as it was reached first."""
        self._begin()
        for move in state.path:
            self._make(move)

    def replay(self, moves: list[Move]) -> Schedule:
        """One order as it is given, to its end or as far as it goes."""
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
        self._world.reset(self._task.file)
        self._done = []

    def _start(self) -> State:
        if self._task.is_over_at_wrong and self.graph.is_wrong:
            if self.graph.near is None:
                self._until = min(self._until, time.monotonic() + SHORTER_S)
            self.graph.leave_far()
        self._begin()
        if self.graph.states:
            self._compare(self.graph.states[0])
        return self._state()

    def _make_shortest(self) -> None:
        """Make the shortest orders that end wrongly, if they were put together from several runs: people see them."""
        for end, moves in list(self.graph.shortest_of_each()):
            if self.schedules[end.number].moves != moves:
                self._begin()
                for done in moves:
                    self._make(done.move)
                self._compare(end)
                self.schedules[end.number] = self._judged()
            self.shortest.append(self.schedules[end.number])

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
        if self._fingerprint() != state.fingerprint:
            raise self._nondeterministic(state)

    def _way(self) -> str:
        return " ".join(str(done.move) for done in self._done)

    def _nondeterministic(self, state: State) -> Nondeterministic:
        one, other = (" ".join(map(str, path)) for path in (state.path, [done.move for done in self._done]))
        return Nondeterministic(
            f"{self.guard.name} has one state with two futures, {one} and {other}: "
            f"{difference(state.fingerprint, self._fingerprint())}"
        )

    def _state(self) -> State:
        """That in which the world is now; it is added, if it is new."""
        fingerprint = self._fingerprint()
        if known := self._states.get(fingerprint):
            if known.ending is not None and self._judged().ending != known.ending:
                raise NoVerdict(f"one state was judged in two ways: {self._way()}")
            return known
        state = State(len(self._states), fingerprint, [done.move for done in self._done], self._world.shown())
        self._look_at_moves(state)
        if not state.moves and not state.is_cut:
            self.schedules[state.number] = schedule = self._judged()
            state.ending = schedule.ending
        self._add(state)
        return state

    def _add(self, state: State) -> None:
        """A new state, with the faults that the budget has for it."""
        self._states[state.fingerprint] = state
        self.graph.states.append(state)
        if state.has_fault:
            return
        for move, command in state.faults.items():
            if move.fault not in self._task.budget.kinds:
                continue
            script = script_of(command)
            if move.fault is not Fault.LOST or (
                command.startswith(self._task.budget.commands) and (not script or script in self._writers)
            ):
                state.moves.setdefault(move, None)
            elif command.startswith(self._task.budget.commands):
                self._withheld.setdefault(script, []).append((state, move))

    def _take_over(self, known: Explorer) -> None:
        self._writers, self._forgets_attempts = known._writers, known._forgets_attempts
        for state in known.graph.states:
            if state.fingerprint not in self._states:
                self._add(replace(state, number=len(self._states), moves={}, done={}, is_exhausted=False))
        for state in known.graph.states:
            mine = self._states[state.fingerprint]
            tried = {move: self._states[to.fingerprint] for move, to in state.moves.items() if to is not None}
            mine.moves = {**dict.fromkeys(state.moves), **mine.moves, **tried}
            mine.done |= state.done
            if state.number in known.schedules:
                self.schedules[mine.number] = known.schedules[state.number]

    def _make(self, move: Move) -> Done:
        world, purchase = self._world, self._world.purchase(move.buyer)
        was_answered, line = purchase.is_answered, purchase.line
        begins = not purchase.has_begun and world.granularity == COMMANDS and not move.is_fault
        command = purchase.command if move.fault not in (Fault.PAUSE, Fault.KILL) else ""
        data = world.data()
        if move.fault is Fault.PAUSE:
            world.pause(move.buyer)
        elif move.fault in KILL.kinds:
            world.kill(move.buyer, behind_command=move.fault is Fault.KILL_SENT)
        elif purchase.can_step or purchase.instance.frozen:
            world.step(move.buyer, loses_answer=move.fault is Fault.LOST)
        else:
            way = f"{self._way()} {move}".strip()
            raise Nondeterministic(f"{move.buyer} waits in one run where it goes on in another, {way}. {INSTEAD}")
        if (script := script_of(command)) and script not in self._writers and world.data() != data:
            self._writers.add(script)
            self.graph.add(self._withheld.pop(script, ()))
        told = (purchase.failure, purchase.outcome or "") if purchase.is_answered and not was_answered else ("", "")
        self._done.append(Done(move, purchase.point, purchase.waits, command, *told, begins, line))
        return self._done[-1]

    def _fingerprint(self) -> str:
        """That of the world, and of how many faults there were."""
        shown = self._world.shown() if self._task.shows else ""
        return f"{self._world.fingerprint()}\n{shown}\nfaults {self._faults}"

    @property
    def _faults(self) -> int:
        return sum(done.move.is_fault for done in self._done)

    def _look_at_moves(self, state: State) -> None:
        """What can be done now, by the purchase that moved last at first."""
        can_step = [each for each in self._world.purchases if each.can_step]
        if len(self._done) >= MOST_MOVES:
            state.is_cut = bool(can_step)
            return
        last = self._done[-1].move.buyer if self._done else ""
        can_step.sort(key=lambda each: (each.buyer != last, each.buyer))
        state.moves = dict.fromkeys(Move(each.buyer) for each in can_step)
        state.faults = {Move(each.buyer, kind): each.command for each in can_step for kind in Fault if _can(kind, each)}

    def _judged(self) -> Schedule:
        """What came of it, by nothing but what is in the fingerprint; its sections are for a film."""
        world = self._world
        ledger, left = world.servers.ledger()
        answers = world.answers()
        verdict = Audit(world.items, left, ledger, answers, slack_ms=0.0).verdict()
        # Who is in doubt and in no ledger has bought nothing here: an item that is not sold is there for others.
        is_left = len(ledger) < world.items
        has_fault = self._faults > 0
        ending = Ending.of(
            verdict,
            premature=sum(each.outcome is Outcome.SOLD_OUT for each in answers) if is_left else 0,
            vanished=world.items - len(ledger) - left,
            has_fault=has_fault,
            deadlock=sum(map(world.waits_for_ever, world.purchases)),
            errors=sum(_is_error(each, has_fault) for each in world.purchases),
        )
        return Schedule(self.guard.name, list(self._done), ending, left, answers, ledger, world.sections())


def _is_error(purchase: Stepped, has_fault: bool) -> bool:
    """Whether its buyer got an answer that no shop may give."""
    return bool(purchase.failure) and (not has_fault or purchase.failure.startswith("buy returned "))


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
