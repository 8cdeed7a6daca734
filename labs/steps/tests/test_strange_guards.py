"""Guards that people write who do not know how schedules are tried: no wrong one is acquitted, and right ones are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.steps.schedules.trials import Trial, TrialResult, Trials
from labs.steps.tests import strange_guards
from labs.steps.tests.strange_guards import RIGHT, WRONG

FILE = Path(strange_guards.__file__)
SIZES = (1, 2)
NO_VERDICT = {"another-program": "not every order was tried", "ends-its-process": "an instance is lost"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    """Two worlds, for all guards."""
    with Trials(tmp_path_factory.mktemp("worlds"), most=2) as trials:
        yield trials


def tried(trials: Trials, guard: str) -> list[TrialResult]:
    """Every order without a fault, with one item and with two."""
    return list(trials.run([Trial(FILE, guard, items=items) for items in SIZES]))


@pytest.mark.parametrize("guard", WRONG)
def test_no_wrong_guard_is_acquitted(trials: Trials, guard: str) -> None:
    """An order ends wrongly, or there is no verdict: on the commands of another program, and a process that ends."""
    results = tried(trials, guard)
    if said := NO_VERDICT.get(guard):
        assert all(said in each.no_verdict for each in results), results
    else:
        assert any(each.wrong_orders for each in results), results


@pytest.mark.parametrize("guard", RIGHT)
def test_right_guards_are_cleared(trials: Trials, guard: str) -> None:
    """Whatever chance, connections, files and clocks they use."""
    results = tried(trials, guard)
    assert all(each.is_right for each in results), results
