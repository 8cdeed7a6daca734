"""Graphs to be played without a server: every move that a page offers was made, and what it shows was seen.

The guards of the shop are recorded at their points with a pause, as a person steps them; the famous mistakes by their
commands, with the fault that breaks them. One that needs three purchases has too many states for that: its shortest
wrong order alone is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from app.contract.clock import utc_now
from app.guards.base import Guard
from labs.steps.guard_files import GuardFile
from labs.steps.mistakes import mistakes
from labs.steps.schedules.explorations import Found, explored
from labs.steps.schedules.explorer import PAUSE, Task, budget_of
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.results import Count, Exploration, packed
from labs.steps.schedules.worlds import Worlds
from labs.steps.stepped import POINTS

MOST_S = 1800.0  # of one guard: a recording is whole, or there is none


def recorded(worlds: Worlds, chosen: Mapping[str, type[Guard]], folder: Path, console: Console) -> None:
    """Write ``FOLDER/schedules-GUARD.json`` for each guard; raises ServerError, also if one is cut."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = sorted(map(_task, chosen.values()), key=lambda task: task.buyers, reverse=True)  # the largest first
    for task, found in worlds.each(explored, tasks):
        if found.is_over:
            exploration = _recording(chosen[found.count.guard], task, found)
            path, states = exploration.write(folder), len(exploration.graphs[0]["states"])
            console.print(f"{path}: {states} states, {path.stat().st_size // 1024} KB", markup=False)


def _task(kind: type[Guard]) -> Task:
    if kind.name not in mistakes():
        return Task(GuardFile.of(kind), PAUSE, granularity=POINTS, seconds=MOST_S, shows=True)
    items, buyers = getattr(kind, "items", 1), getattr(kind, "buyers", 2)
    task = Task(GuardFile.of(kind), budget_of(kind), items, buyers, MOST_S, shows=True)
    return task._replace(is_over_at_wrong=buyers > 2)


def _recording(kind: type[Guard], task: Task, found: Found) -> Exploration:
    """The graph of one guard; raises as `recorded` does."""
    count, explorer = found.count, found.explorer
    if explorer is None or count.no_verdict:
        raise NoVerdict(count.no_verdict)
    graph, schedules = explorer.graph, explorer.schedules
    if task.is_over_at_wrong:
        order = count.shortest[0]
        graph.leave_one([done.move for done in order.moves])
        schedules = {len(order.moves): order}
    elif graph.cut:
        raise NoVerdict(f"{kind.name} has more states than can be recorded: {graph.cut} were left out")
    whole = Exploration(kind.name, count.promise, task.granularity, task.items, task.buyers, utc_now())
    whole.description, whole.found, whole.source = kind.description, getattr(kind, "found", ""), found.source
    whole.counts = [Count(kind.name, count.promise, count.fault, pauses=True)]
    whole.counts[0].note(graph, schedules, count.seconds)
    whole.graphs = [packed(graph, schedules, fault=count.fault)]
    return whole
