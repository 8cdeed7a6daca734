"""Several worlds, in which as many explorations go on at the same time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from labs.steps.schedules.world import World
from loadtest.stack.process import Resource

Task = TypeVar("Task")
Result = TypeVar("Result")
MOST = 4
SWITCH_S = 0.0005  # a world that has its answer does not wait long for the pictures of the others


class Worlds(Resource):
    """One for each CPU; `options` are those of `World`."""

    def __init__(self, directory: Path, **options: Any) -> None:
        places = [directory / str(number) for number in range(min(os.cpu_count() or 1, MOST))]
        for place in places:
            place.mkdir()
        self._worlds = [World(place, **options) for place in places]

    def start(self) -> None:
        """Start all; raises ServerError."""
        sys.setswitchinterval(SWITCH_S)
        with ThreadPoolExecutor(len(self._worlds)) as pool:
            list(pool.map(World.start, self._worlds))

    def stop(self) -> None:
        for world in self._worlds:
            world.stop()

    def each(self, work: Callable[[World, Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """What comes of each task in a world of its own, in the order of the tasks; raises as `work` does."""
        free = SimpleQueue[World]()
        for world in self._worlds:
            free.put(world)

        def done(task: Task) -> Result:
            world = free.get()
            try:
                return work(world, task)
            finally:
                free.put(world)

        pool = ThreadPoolExecutor(len(self._worlds))
        try:
            yield from pool.map(done, tasks)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
