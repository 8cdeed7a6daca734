"""Guards that people write who do not know how schedules are tried: no wrong one is acquitted, and right ones are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.steps.guard_files import GuardFile
from labs.steps.schedules.explorations import explored
from labs.steps.schedules.explorer import KILL, NO_FAULT, PAUSE, Budget, Task
from labs.steps.schedules.results import Count
from labs.steps.schedules.worlds import Worlds
from labs.steps.tests import strange_guards
from labs.steps.tests.strange_guards import RIGHT, WRONG, WRONG_WITH

FILE = strange_guards.__file__
SIZES = (1, 2)
MOST_S = 120.0
NO_VERDICT = {
    "another-program": "not every order was tried",
    "shared-byte": "memory that processes share",
    "binds-port": "an address that one process alone can have",
    "ends-its-process": "an instance is lost",
    "busy-is-sold-out": "waits no longer by its clock and is told sold_out",  # with two items: then one is left
    "redis-clock": "the clock of Redis",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Two worlds, for all guards."""
    with Worlds(tmp_path_factory.mktemp("worlds"), most=2) as worlds:
        yield worlds


def tried(worlds: Worlds, guard: str, budget: Budget = NO_FAULT) -> list[Count]:
    """Every order, with at most one fault of a kind, for one item and for two."""
    tasks = [Task(GuardFile(FILE, guard), budget, items, seconds=MOST_S) for items in SIZES]
    return [found.count for _, found in worlds.each(explored, tasks) if found.is_over]


@pytest.mark.parametrize("guard", WRONG)
def test_no_wrong_guard_is_acquitted(worlds: Worlds, guard: str) -> None:
    """An order ends wrongly, or there is no verdict: on what cannot be stopped, a process that ends, and a limit."""
    results = tried(worlds, guard)
    if said := NO_VERDICT.get(guard):
        assert any(said in each.no_verdict for each in results), results
    else:
        assert any(each.wrong_ends for each in results), results


@pytest.mark.parametrize("guard", RIGHT)
def test_right_guards_are_cleared(worlds: Worlds, guard: str) -> None:
    """Whatever chance, connections, files and clocks they use."""
    results = tried(worlds, guard)
    assert all(not each.wrong_ends and not each.cut and not each.no_verdict for each in results), results


@pytest.mark.parametrize("budget", [PAUSE, KILL], ids=lambda budget: budget.name)
@pytest.mark.parametrize(("guard", "fault"), [(each.name, fault) for each, fault in WRONG_WITH.items()])
def test_time_passes_with_a_fault(worlds: Worlds, guard: str, fault: str, budget: Budget) -> None:
    """For clocks as for leases: a guard that counts on either is wrong with the fault that it forgets, and no other."""
    results = tried(worlds, guard, budget)
    assert [bool(each.wrong_ends) for each in results] == [fault == budget.name] * len(SIZES), results
    assert not any(each.no_verdict or each.cut for each in results), results
