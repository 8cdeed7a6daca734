"""An exploration in one of several worlds, and what was found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.contract.section_log import GuardSource
from app.telemetry.guard_lines import GuardLines
from labs.steps.guard_files import BrokenGuard
from labs.steps.schedules.explorer import Explorer, Task
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.results import Count
from labs.steps.schedules.schedule import Fault
from labs.steps.schedules.world import World

SHOW_S = 0.5  # how often it is told how far it is


@dataclass(frozen=True)
class Found:
    """What was found so far; at the end, with the explorer, all of it. There is none of a file that is `broken`."""

    count: Count
    explorer: Explorer | None = None
    source: GuardSource | None = None
    broken: str = ""

    @property
    def is_over(self) -> bool:
        return self.explorer is not None or bool(self.broken)

    @property
    def is_complete(self) -> bool:
        """Whether it has a verdict, and nothing was left out."""
        return self.explorer is not None and not (self.count.no_verdict or self.count.cut)


def explored(world: World, task: Task) -> Iterator[Found]:
    """What is found in this world, from time to time and at the end; raises ServerError."""
    budget, began = task.budget, time.monotonic()
    count = Count(task.file.name, "", budget.name, task.items, Fault.PAUSE in budget.kinds)
    shown = began
    try:
        explorer = Explorer(world, task)
        count.guard, count.promise = explorer.guard.name, explorer.guard.promise.value
        for graph in explorer.explore():
            if time.monotonic() - shown > SHOW_S:
                count.note(graph, explorer.schedules, time.monotonic() - began)
                yield Found(replace(count))
                shown = time.monotonic()
    except BrokenGuard as error:
        count.no_verdict = str(error)
        yield Found(count, broken=str(error))
        return
    except NoVerdict as error:
        count.no_verdict = error.message
    count.note(explorer.graph, explorer.schedules, time.monotonic() - began, explorer.shortest)
    yield Found(count, explorer, GuardLines(explorer.guard.buy).source)
