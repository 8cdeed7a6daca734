"""Every schedule of a guard, each tried from the beginning: a depth-first search without a stored state.

Equivalent schedules are tried once. Buyers whose names could be swapped come in the order of their names. A step that
only waits is none: what counts is in which order purchases come to their points, and where that was reached before with
the same purchases waiting, the search has been.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

from app.contract.outcomes import Promise
from app.guards import guards
from labs.steps.schedules.schedule import Done, Ending, Fault, Move, Schedule
from labs.steps.schedules.world import INSIDE, INSTANCES, Stepped, World
from loadtest.results.fence import past_fence
from loadtest.results.record import CriticalSection
from loadtest.results.verdict import judge_rush

# A purchase that has begun so many sections is not interrupted any more: two that undo each other's work have no end.
MOST_SECTIONS = 2
MOST_MOVES = 60  # of one schedule
State = tuple[object, ...]


class Explorer:
    """Tries the schedules of one guard with one kind of fault.

    Args:
        world: is started.
        fault: done once in each schedule; NONE: in no schedule.
    """

    def __init__(self, world: World, guard: str, fault: Fault = Fault.NONE) -> None:
        self._world = world
        self._guard = guards()[guard]
        self._fault = fault
        self._seen: set[State] = set()
        self._alternatives: list[list[Move]] = []  # at each depth, the first is the one that is taken
        self.has_waited = False  # whether a purchase ever waited: then the guard has a lock of some kind

    def schedules(self) -> Iterator[Schedule]:
        """Each schedule, as soon as it was tried; raises ServerError or SaleError."""
        with ExitStack() as setting:
            if self._fault is Fault.LOST:
                setting.enter_context(self._world.proxied())
            if self._fault is Fault.KILL:
                setting.enter_context(self._world.with_spare())
            while True:
                schedule = self._try_one()
                if schedule and (
                    self._fault is Fault.NONE or any(each.move.fault is self._fault for each in schedule.moves)
                ):
                    yield schedule
                while self._alternatives and len(self._alternatives[-1]) == 1:
                    self._alternatives.pop()
                if not self._alternatives:
                    return
                self._alternatives[-1].pop(0)

    def replay(self, moves: list[Move]) -> Schedule:
        """One schedule as it is given, to its end."""
        self._fault = next((move.fault for move in moves if move.fault is not Fault.NONE), Fault.NONE)
        self._alternatives = [[move] for move in moves]
        schedule = self._try_one()
        assert schedule is not None
        return schedule

    def _try_one(self) -> Schedule | None:
        """Follow the path, and beyond it take what is first; None where the search has been."""
        world, path = self._world, len(self._alternatives)
        world.reset(self._guard.name)
        done: list[Done] = []
        arrivals: list[tuple[str, str]] = []
        while True:
            depth = len(done)
            moves = self._moves(done)
            if not moves:
                return self._judged(done)
            if depth < path and self._alternatives[depth][0] not in moves:  # a guard that depends on time
                path = depth
                del self._alternatives[depth:]
            if depth >= path:
                self._alternatives.append(moves)
            move = self._alternatives[depth][0]
            before = {each.buyer: (each.stops, each.is_over) for each in world.purchases}
            self._make(move)
            purchase = world.purchase(move.buyer)
            done.append(Done(move, purchase.point, purchase.waits))
            if move.fault is not Fault.NONE:
                arrivals.append((move.buyer, move.fault.value))
            arrivals += self._arrived(before, move)
            self.has_waited |= purchase.waits
            waiting = frozenset(each.buyer for each in world.purchases if each.waits)
            state = (*arrivals, waiting)
            if depth + 1 >= path:
                if state in self._seen:
                    self._alternatives[depth + 1 :] = []
                    return None
                self._seen.add(state)

    def _arrived(self, before: dict[str, tuple[int, bool]], move: Move) -> list[tuple[str, str]]:
        """Who came to which point in this move: first the purchase that was told to go on, then those it let in."""
        world = self._world
        came = [each for each in world.purchases if (each.stops, each.is_over) != before[each.buyer]]
        came.sort(key=lambda each: (each.buyer != move.buyer, each.buyer))
        return [(each.buyer, each.point) for each in came if not each.is_dead]

    def _make(self, move: Move) -> None:
        world = self._world
        actions = {
            Fault.NONE: world.step,
            Fault.PAUSE: world.pause,
            Fault.KILL: world.kill,
            Fault.LOST: world.lose_answer,
        }
        actions[move.fault](move.buyer)

    def _moves(self, done: list[Done]) -> list[Move]:
        """What can be done now: the purchase that moved last goes on first."""
        if len(done) >= MOST_MOVES:
            return []
        last = done[-1].move.buyer if done else ""
        can_step = [each for each in self._world.purchases if self._can_step(each)]
        can_step.sort(key=lambda each: (each.buyer != last, each.buyer))
        begun = Counter(each.move.buyer for each in done if each.point == "locked")
        if impatient := [each for each in can_step if begun[each.buyer] >= MOST_SECTIONS]:
            can_step = impatient[:1]
        moves = [Move(each.buyer) for each in can_step]
        if self._fault is not Fault.NONE and all(each.move.fault is Fault.NONE for each in done):
            moves += [Move(each.buyer, self._fault) for each in can_step if self._can_fail(each)]
        return moves

    def _can_step(self, purchase: Stepped) -> bool:
        return purchase.stands and not purchase.is_dead and (purchase.point != "start" or self._is_first(purchase))

    def _is_first(self, purchase: Stepped) -> bool:
        """Whether no purchase before it could be swapped with it: of the same instance, or of one like it."""
        purchases = self._world.purchases
        place = purchases.index(purchase)
        before = [each for each in purchases[:place] if each.point == "start" and not each.waits]
        if any(each.instance is purchase.instance for each in before):
            return False
        alike = len(purchases) % INSTANCES == 0
        return not (alike and self._is_untouched(purchase) and any(map(self._is_untouched, before)))

    def _is_untouched(self, purchase: Stepped) -> bool:
        return all(
            each.point == "start" and not each.waits
            for each in self._world.purchases
            if each.instance is purchase.instance
        )

    def _can_fail(self, purchase: Stepped) -> bool:
        if self._fault is Fault.LOST:
            return purchase.point == "write"
        return purchase.point in INSIDE

    def _judged(self, done: list[Done]) -> Schedule:
        world = self._world
        ledger, left = world.ledger()
        answers = [each.answer() for each in world.purchases]
        sections: list[CriticalSection] = world.sections()
        late = len(past_fence(sections)) if self._guard.promise is Promise.EXACT else 0
        verdict = judge_rush(
            stock=world.items, stock_left=left, ledger=ledger, answers=answers, slack_ms=0.0, past_fence=late
        )
        ending = Ending.of(verdict, vanished=world.items - len(ledger) - left, fault=self._fault)
        return Schedule(self._guard.name, self._fault, done, ending, left, answers, ledger, sections)


def faults_of(guard: str, *, has_waited: bool) -> list[Fault]:
    """What can be done to a guard: where no purchase ever waits, a pause and a death are nothing but other orders."""
    kind = guards()[guard]
    if kind.promise is Promise.NONE:
        return []
    has_lock = kind.loses_lock or has_waited
    return [Fault.PAUSE, Fault.KILL, Fault.LOST] if has_lock else [Fault.LOST]
