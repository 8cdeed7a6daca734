"""Grade one file: all stages, or those that can be run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from labs.grade.orders import orders
from labs.grade.selling import contract, one_buyer, rush
from labs.grade.stages import CONTRACT, ONE, RUSH, STAGES, CannotSell, Lost, Result, Stage, Status
from loadtest.stack.stack import Stack

SELLING: dict[Stage, Callable[[Stack, Path], None]] = {CONTRACT: contract, ONE: one_buyer, RUSH: rush}


def grade(guard: Path, directory: Path) -> Iterator[Result]:
    """The results of the stages, as they come; `directory` is empty, for data and logs. Raises ServerError."""
    with Stack(directory, ports="free", instances=0) as servers:
        for stage, sell in SELLING.items():
            try:
                sell(servers, guard)
            except CannotSell as lost:
                yield Result(stage, Status.FAILED, str(lost))
                yield from (Result(each, Status.NOT_RUN, "Not run: nothing can be sold yet.") for each in STAGES[1:])
                return
            except Lost as lost:
                yield Result(stage, Status.FAILED, str(lost))
            else:
                yield Result(stage, Status.PASSED)
    yield from orders(guard, directory)
