"""The stages that try every order of two purchases, on the explorer of `labs.steps`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labs.grade.stages import DEATH, LOST_ANSWER, ORDERS, PAUSE, Result, Stage, Status
from labs.grade.story import Story
from labs.steps.guard_files import GuardFile
from labs.steps.schedules.explorations import Found, explored
from labs.steps.schedules.explorer import KILL, LOST, NO_FAULT, Task
from labs.steps.schedules.explorer import PAUSE as PAUSED
from labs.steps.schedules.graph import Graph, State
from labs.steps.schedules.worlds import Worlds

SIZES = (1, 2)  # items for sale
BUDGETS = {ORDERS: NO_FAULT, DEATH: KILL, LOST_ANSWER: LOST, PAUSE: PAUSED}
FAULTS = (DEATH, LOST_ANSWER, PAUSE)
NO_BASE = "there is no verdict on the orders without a fault"


@dataclass
class Tried:
    """What an exploration has found."""

    # The shortest order for each way in which orders end wrongly; with a fault, of those that need it.
    wrong: list[Story] = field(default_factory=list)
    is_cut: bool = False  # whether something was not tried
    reason: str = ""  # why there is no verdict, or ""
    ends_rightly: bool = True  # whether some order does


def orders(guard: Path, directory: Path) -> Iterator[Result]:
    """The results of these stages, in their order; raises ServerError."""
    tasks = [Task(GuardFile(str(guard)), items=items, seconds=ORDERS.seconds) for items in SIZES]
    found: dict[Stage, dict[int, Tried]] = {stage: {} for stage in BUDGETS}
    (places := directory / "worlds").mkdir()
    with Worlds(places, most=len(SIZES) * len(FAULTS)) as worlds:  # processes: the file is loaded nowhere else
        for task, result in worlds.each(explored, tasks):
            if result.is_over:
                stage = next(stage for stage, budget in BUDGETS.items() if budget == task.budget)
                tried = found[stage][task.items] = _tried(result, task)
                if stage == ORDERS and tried.ends_rightly and result.explorer and result.is_complete:
                    leave_what_needs_no_fault(result.explorer.graph)
                    known = task._replace(known=result.explorer)
                    tasks += [known._replace(budget=BUDGETS[each], seconds=each.seconds) for each in FAULTS]
    yield from _judged(found)


def _tried(found: Found, task: Task) -> Tried:
    if found.explorer is None:
        said = f"In a third process the file cannot be loaded: {found.broken}"
        return Tried([Story(frozenset({"errors"}), task.items, 0, said)], ends_rightly=False)
    if found.count.no_verdict:
        return Tried(reason=found.count.no_verdict)
    graph = found.explorer.graph
    stories = Story.shortest(graph, found.count.guard, Path(task.file.path), task.items)
    return Tried(stories, is_cut=bool(graph.cut), ends_rightly=can_end_rightly(graph))


def _judged(found: Mapping[Stage, Mapping[int, Tried]]) -> Iterator[Result]:
    yield _result(ORDERS, list(found[ORDERS].values()), shown=set())
    shown: set[str] = set()  # ways to end wrongly that an earlier stage with a fault was lost for
    for stage in FAULTS:
        if not found[stage]:
            is_hopeless = any(not each.ends_rightly for each in found[ORDERS].values())
            why = "every order ends wrongly without a fault already" if is_hopeless else NO_BASE
            yield Result(stage, Status.NOT_RUN, f"Not run: {why}.")
            continue
        yield (result := _result(stage, list(found[stage].values()), shown))
        if result.status is Status.FAILED:
            shown |= {kind for tried in found[stage].values() for story in tried.wrong for kind in story.kinds}


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


def leave_what_needs_no_fault(graph: Graph) -> None:
    """Prepare a graph without a fault for explorations with one.

    A fault is made only in states from which all schedules without a fault end rightly: it alone leads to what is wrong
    behind it. How schedules without a fault end counts no more.
    """
    wrong = _leading_to_wrong(graph.states)
    for state in graph.states:
        state.ending = None
        if state.number in wrong:
            state.faults.clear()


def can_end_rightly(graph: Graph) -> bool:
    """Whether any schedule does."""
    return any(state.ending is not None and state.ending.is_right for state in graph.states)


def _leading_to_wrong(states: Sequence[State]) -> set[int]:
    """The states from which a schedule ends wrongly."""
    before = defaultdict[int, list[int]](list)
    for state in states:
        for to in state.moves.values():
            if to is not None:
                before[to.number].append(state.number)
    found = [state.number for state in states if state.is_wrong]
    leading = set(found)
    while found:
        new = set(before[found.pop()]) - leading
        leading |= new
        found += new
    return leading
