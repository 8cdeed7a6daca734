"""Graphs to be played without a server: every move that a page offers was made, and what it shows was seen.

The guards of the shop are recorded at their points with a pause, as a person steps them; the famous mistakes by their
commands, with the fault that breaks them. One that needs three purchases has too many states for that: its shortest
wrong order alone is recorded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from app.contract.clock import utc_now
from app.guards import guards
from app.telemetry.guard_lines import GuardLines
from labs.steps.mistakes import mistakes
from labs.steps.schedules.explorer import PAUSE, Explorer, budget_of
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.results import Count, Exploration, packed
from labs.steps.schedules.world import World
from labs.steps.schedules.worlds import Worlds
from labs.steps.stepped import COMMANDS, POINTS

MOST_S = 1800.0  # of one guard: a recording is whole, or there is none


def recorded(worlds: Worlds, chosen: Sequence[str], folder: Path, console: Console) -> None:
    """Write ``FOLDER/schedules-GUARD.json`` for each guard; raises ServerError, also if one is cut."""
    folder.mkdir(parents=True, exist_ok=True)
    largest_first = sorted(chosen, key=lambda name: getattr(mistakes().get(name), "buyers", 2), reverse=True)
    for _, found in worlds.each(_recorded, largest_first):
        path = found.write(folder)
        console.print(
            f"{path}: {len(found.graphs[0]['states'])} states, {path.stat().st_size // 1024} KB", markup=False
        )


def _recorded(world: World, name: str) -> Iterator[Exploration]:
    """The graph of one guard; raises as `recorded` does."""
    is_mistake = name in mistakes()
    kind = mistakes()[name] if is_mistake else guards()[name]
    world.granularity = COMMANDS if is_mistake else POINTS
    world.buyers, world.items = getattr(kind, "buyers", 2), getattr(kind, "items", 1)  # as a mistake needs
    budget, is_large = budget_of(kind) if is_mistake else PAUSE, world.buyers > 2
    explorer = Explorer(world, kind, budget, seconds=MOST_S, shows=True, is_over_at_wrong=is_large)
    began = time.monotonic()
    for _ in explorer.explore():
        pass
    graph, schedules = explorer.graph, explorer.schedules
    if is_large:
        order = explorer.shortest[0]
        graph.leave_one([done.move for done in order.moves])
        schedules = {len(order.moves): order}
    elif graph.cut:
        raise NoVerdict(f"{name} has more states than can be recorded: {graph.cut} were left out")
    found = Exploration(name, kind.promise.value, world.granularity, world.items, world.buyers, utc_now())
    found.description, found.found = kind.description, getattr(kind, "found", "")
    count = Count(name, found.promise, explorer.budget.name, pauses=True)
    count.note(graph, schedules, time.monotonic() - began)
    found.counts = [count]
    found.graphs = [packed(graph, schedules, fault=explorer.budget.name)]
    found.source = GuardLines(kind.buy).source
    yield found
