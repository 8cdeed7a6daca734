"""The stages that try every order of two purchases, on the explorer of `labs.steps`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from labs.grade.needed import can_end_rightly, leave_what_needs_no_fault
from labs.grade.stages import DEATH, LOST_ANSWER, ORDERS, PAUSE, Result, Stage, Status
from labs.grade.story import Story
from labs.steps.guard_files import BrokenGuard, GuardFile
from labs.steps.schedules.explorer import KILL, LOST, NO_FAULT, Explorer
from labs.steps.schedules.explorer import PAUSE as PAUSED
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.world import World
from labs.steps.schedules.worlds import Worlds

SIZES = (1, 2)  # items for sale
BUDGETS = {ORDERS: NO_FAULT, DEATH: KILL, LOST_ANSWER: LOST, PAUSE: PAUSED}
FAULTS = (DEATH, LOST_ANSWER, PAUSE)


class _Task(NamedTuple):
    """An exploration: of this file, for this stage, with so many items, behind what is known of it without a fault."""

    path: Path
    stage: Stage
    items: int
    known: Explorer | None = None


@dataclass
class Tried:
    """What an exploration has found.

    Attributes:
        wrong: the shortest order for each way in which orders end wrongly; with a fault, of those that need it.
        is_cut: whether something was not tried.
        reason: why there is no verdict, or "".
        ends_rightly: whether some order does.
        explorer: for those with a fault.
    """

    wrong: list[Story] = field(default_factory=list)
    is_cut: bool = False
    reason: str = ""
    ends_rightly: bool = True
    explorer: Explorer | None = None


def orders(guard: Path, directory: Path) -> Iterator[Result]:
    """The results of these stages, in their order; raises ServerError."""
    tasks = [_Task(guard, ORDERS, items) for items in SIZES]
    found: dict[Stage, dict[int, Tried]] = {stage: {} for stage in BUDGETS}
    (places := directory / "worlds").mkdir()
    worlds = Worlds(places, most=len(SIZES) * len(FAULTS))
    try:
        worlds.start()
        for task, tried in worlds.each(_tried, tasks):
            found[task.stage][task.items] = tried
            if tried.explorer is not None:
                tasks += [_Task(guard, stage, task.items, tried.explorer) for stage in FAULTS]
    finally:
        worlds.stop()
    yield from _judged(found)


def _tried(world: World, task: _Task) -> Iterator[Tried]:
    """Explore it in this world, a process of its own: the file is loaded nowhere else."""
    world.items, budget = task.items, BUDGETS[task.stage]
    try:
        kind = GuardFile(str(task.path)).load()
        explorer = Explorer(world, kind, budget, known=task.known, seconds=task.stage.seconds)
        for _ in explorer.explore():
            pass
    except NoVerdict as error:
        yield Tried(reason=error.message)
    except BrokenGuard as error:
        said = f"In a third process the file cannot be loaded: {error.message}"
        yield Tried([Story(frozenset({"errors"}), task.items, 0, said)], ends_rightly=False)
    else:
        yield _told(explorer, task, kind.name)


def _told(explorer: Explorer, task: _Task, name: str) -> Tried:
    graph = explorer.graph
    tried = Tried(Story.shortest(graph, name, task.path, task.items), is_cut=bool(graph.cut))
    if task.stage == ORDERS:
        tried.ends_rightly = can_end_rightly(graph)
        if tried.ends_rightly and not graph.cut:
            leave_what_needs_no_fault(graph)
            tried.explorer = explorer
    return tried


def _judged(found: Mapping[Stage, Mapping[int, Tried]]) -> Iterator[Result]:
    yield _result(ORDERS, list(found[ORDERS].values()), shown=set())
    shown: set[str] = set()  # ways to end wrongly that an earlier stage with a fault was lost for
    for stage in FAULTS:
        if not found[stage]:
            yield Result(stage, Status.NOT_RUN, _why_not_run(list(found[ORDERS].values())))
            continue
        yield (result := _result(stage, list(found[stage].values()), shown))
        if result.status is Status.FAILED:
            shown |= {kind for tried in found[stage].values() for story in tried.wrong for kind in story.kinds}


def _why_not_run(plain: Sequence[Tried]) -> str:
    if any(not each.ends_rightly for each in plain):
        return "Not run: every order ends wrongly without a fault already."
    return "Not run: there is no verdict on the orders without a fault."


def _result(stage: Stage, tried: Sequence[Tried], shown: set[str]) -> Result:
    stories = [story for each in tried for story in each.wrong if not story.kinds <= shown]
    if stories:
        return Result(stage, Status.FAILED, min(stories, key=lambda story: (story.items, story.length)).text)
    if reason := next(filter(None, (each.reason for each in tried)), ""):
        return Result(stage, Status.NO_VERDICT, f"No verdict: {reason:.400}")
    if any(each.is_cut for each in tried):
        cut = f"not all orders were tried within {stage.seconds:g} s: is the machine busy?"
        return Result(stage, Status.NO_VERDICT, f"No verdict: {cut}")
    return Result(stage, Status.PASSED)
