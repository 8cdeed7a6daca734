"""Explore guards by their files, wherever those lie: for commands and labs that judge what somebody has written.

    with Trials(directory, most=2) as trials:
        for result in trials.run([Trial("homemade.py", fault="death", items=2, seconds=30)]):
            print(result.guard, result.is_right, result.no_verdict)
            for order in result.wrong_orders:
                print(order.sentence, order.moves, order.link)

The servers are started once, for all trials. A trial is one guard, one kind of fault and one size. It ends with a
`TrialResult` in any case: a broken file, a guard that waits for ever and one whose commands cannot be stopped have
`no_verdict`, a sentence that says why and what to do. An order is found only if it was made, on real servers, and its
end was judged; each of `wrong_orders` was made once more as it stands there, from its first move.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labs.steps.guard_files import BrokenGuard, GuardFile
from labs.steps.schedules.endings import sentence_of
from labs.steps.schedules.explorer import KILL, LOST, NO_FAULT, PAUSE, Budget, Explorer
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.schedule import Schedule
from labs.steps.schedules.world import World
from labs.steps.schedules.worlds import MOST, Worlds
from loadtest.stack.process import Resource

FAULTS: dict[str, Budget] = {"none": NO_FAULT, "death": KILL, "lost": LOST, "pause": PAUSE}
LINK = "http://127.0.0.1:8070/steps#guard={guard}&grain=commands&schedule={path}"


@dataclass(frozen=True)
class Trial:
    """What is to be tried.

    Attributes:
        file: of the guard.
        guard: its name, where the file has several.
        fault: one of `FAULTS`: "none", "death" (kill -9), "lost" (an answer to a command that writes) or "pause" (of a
            process, beyond its lease). It comes at every point, once in an order.
        items, buyers: of the sale; each buyer makes one purchase, and two instances take them in turn.
        seconds: after which what is left is not tried.
        first: whether to stop at the first wrong order.
    """

    file: str | Path
    guard: str = ""
    fault: str = "none"
    items: int = 1
    buyers: int = 2
    seconds: float = 60.0
    first: bool = False

    def __post_init__(self) -> None:
        if self.fault not in FAULTS:
            raise ValueError(f"no kind of fault is named {self.fault!r}: {', '.join(FAULTS)}")


@dataclass(frozen=True)
class WrongOrder:
    """An order of moves that ends wrongly: the shortest that ends so.

    Attributes:
        kinds: in which ways it is wrong, names of `labs.steps.schedules.schedule.Ending`, the worst first.
        sentence: how it ends, in words.
        moves: what happens, one text for each move.
        path: the moves as `labs.steps.schedules.schedule.moves_of` reads them.
        link: to step it by hand, on a board whose shop has the guard.
    """

    kinds: tuple[str, ...]
    sentence: str
    moves: tuple[str, ...]
    path: str
    link: str


@dataclass(frozen=True)
class TrialResult:
    """What came of a trial.

    Attributes:
        guard, promise: as the file says; empty if it is broken.
        is_complete: whether every order was tried.
        no_verdict: why nothing can be said, if so; empty where not everything was tried in time, see `is_complete`.
        states, orders, wrong: how many there are, and how many orders end wrongly.
        wrong_orders: for each way in which some end, the shortest.
        seconds: that it took.
    """

    trial: Trial
    guard: str = ""
    promise: str = ""
    is_complete: bool = False
    no_verdict: str = ""
    states: int = 0
    orders: int = 0
    wrong: int = 0
    wrong_orders: Sequence[WrongOrder] = field(default=())
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether every order was tried, and none ends wrongly."""
        return self.is_complete and not self.no_verdict and not self.wrong


class Trials(Resource):
    """Servers for trials, of which as many go on at the same time as the machine has use for, at most `most`."""

    def __init__(self, directory: Path, *, most: int = MOST) -> None:
        self._worlds = Worlds(directory, most=most)

    def start(self) -> None:
        """Start all servers; raises ServerError."""
        self._worlds.start()

    def stop(self) -> None:
        self._worlds.stop()

    def run(self, trials: Sequence[Trial]) -> Iterator[TrialResult]:
        """The results as they come, in whatever order; raises ServerError if a server is gone."""
        for _, result in self._worlds.each(_tried, list(trials)):
            yield result


def _tried(world: World, trial: Trial) -> Iterator[TrialResult]:
    yield run_trial(world, trial)


def run_trial(world: World, trial: Trial) -> TrialResult:
    """One trial in a world that is started; raises ServerError if a server is gone."""
    began, result = time.monotonic(), TrialResult(trial)
    try:
        kind = GuardFile(str(Path(trial.file).resolve()), trial.guard).load()
        world.items, world.buyers = trial.items, trial.buyers
        result = replace(result, guard=kind.name, promise=kind.promise.value)
        explorer = Explorer(world, kind, FAULTS[trial.fault], seconds=trial.seconds, is_first_enough=trial.first)
        try:
            for _ in explorer.explore():
                pass
        finally:
            result = replace(result, **_numbers(explorer, trial.items))
    except (BrokenGuard, NoVerdict) as error:
        result = replace(result, no_verdict=getattr(error, "message", str(error)), is_complete=False)
    return replace(result, seconds=time.monotonic() - began)


def _numbers(explorer: Explorer, items: int) -> dict[str, Any]:
    graph = explorer.graph
    orders = graph.orders()
    wrong = tuple(wrong_order(schedule, items) for schedule in explorer.shortest)
    numbers = {"states": len(graph.states), "orders": orders["all"], "wrong": orders["wrong"]}
    return {**numbers, "wrong_orders": wrong, "is_complete": bool(graph.states) and not graph.cut}


def wrong_order(schedule: Schedule, items: int) -> WrongOrder:
    """An order as it is told."""
    link = LINK.format(guard=schedule.guard, path=schedule.path)
    moves = tuple(done.words for done in schedule.moves)
    return WrongOrder(schedule.ending.ways, sentence_of(schedule.ending, items), moves, schedule.path, link)
