"""Every history of the smallest worlds, and whether the explorer notices if a line of the core is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lock.core.cohort import CohortTurn
from lock.core.core import Core
from tests.lock.core.explorer import Explorer
from tests.lock.core.histories import explain, from_text, main
from tests.lock.core.worlds import WORLDS
from tests.support.waiting import Patch

SMALLEST = [
    ("two", 0), ("threads", 0), ("together", 0), ("ended", 0), ("alone", 1), ("late turn", 0), ("restored", 0),
    ("other key", 2), ("other reader", 2), ("again", 1),
]  # fmt: skip
SECONDS = 100.0  # far more than they take


@pytest.mark.parametrize(
    ("world", "faults"),
    [pytest.param(*each, marks=pytest.mark.slow) if each == ("again", 1) else each for each in SMALLEST],
)
def test_no_history_of_a_small_world_breaks_a_rule(world: str, faults: int) -> None:
    """Never two holders, tokens rise, losses are true and stay, a fence stands, waits end, nothing is left."""
    found = Explorer(WORLDS[world], faults, seconds=SECONDS).run()
    assert not found.violation, explain(world, faults, found)
    assert found.is_complete


def test_two_explorations_find_the_same() -> None:
    """States and histories are counted alike, whatever the order of sets and the addresses of objects."""
    first, again = (Explorer(WORLDS["two"], 0).run() for _ in range(2))
    assert (first.states, first.histories, first.ends) == (again.states, again.histories, again.ends)


def count_late_renewals(core: Core, sent: float, ttl: int, now: float) -> None:
    core.deadline = max(core.deadline, sent + ttl)


def go_on_after_the_end(turn: CohortTurn, now: float) -> Any:
    """Whatever has become of the turn."""
    if turn.ticket is not None:
        turn.cohort.core.check(turn.ticket, now)
        return None
    return NEXT(turn, now)


NEXT = CohortTurn.next
MISSING: dict[str, tuple[str, Any, str, Callable[..., Any]]] = {
    "a renewal that comes too late does not count": ("again", Core, "renewed", count_late_renewals),
    "a turn that was ended is no hold": ("ended", CohortTurn, "next", go_on_after_the_end),
}


@pytest.mark.parametrize("rule", MISSING)
def test_a_missing_rule_is_found_and_its_history_replayed(
    rule: str, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shortest history is told in words, and as a text that breaks the rule again."""
    world, owner, name, without = MISSING[rule]
    monkeypatch.setattr(owner, name, without)
    found = Explorer(WORLDS[world], 1, seconds=SECONDS).run()
    assert found.violation
    text = explain(world, 1, found)
    history = text.split('"')[1]
    assert from_text(history) == found.history
    assert main(["--world", world, "--faults", "1", "--replay", history]) == 1
    assert found.violation in capsys.readouterr().out
    monkeypatch.undo()
    assert main(["--world", world, "--faults", "1", "--replay", history]) == 0
