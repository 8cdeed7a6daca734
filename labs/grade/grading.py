"""Grade one file: all stages, or those that can be run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from labs.grade.orders import orders
from labs.grade.sale import Servers
from labs.grade.selling import contract, one_buyer, rush
from labs.grade.stages import CONTRACT, ONE, RUSH, STAGES, Lost, Result, Stage, Status

SELLING: dict[Stage, Callable[[Servers, Path], None]] = {CONTRACT: contract, ONE: one_buyer, RUSH: rush}


def grade(guard: Path, directory: Path) -> Iterator[Result]:
    """The results of the stages, as they come; raises ServerError where etcd or Redis cannot be used.

    Args:
        guard: the file.
        directory: an empty one, for data and logs.
    """
    with Servers(directory) as servers:
        for stage, sell in SELLING.items():
            yield (result := _result(stage, sell, servers, guard))
            if stage is CONTRACT and result.status is not Status.PASSED:
                yield from (Result(each, Status.NOT_RUN, "Not run: the first stage is lost.") for each in STAGES[1:])
                return
    yield from orders(guard, directory)


def _result(stage: Stage, sell: Callable[[Servers, Path], None], servers: Servers, guard: Path) -> Result:
    try:
        sell(servers, guard)
    except Lost as lost:
        return Result(stage, Status.FAILED, str(lost))
    return Result(stage, Status.PASSED)
