"""Every history of the smallest worlds, and whether the explorer notices if a line of the core is missing."""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import replace
from typing import Any

import pytest

from lock.core.acquisition import Acquisition
from lock.core.cohort import Cohort, CohortTurn
from lock.core.core import Core
from lock.core.endings import Endings
from lock.core.predecessors import Predecessors
from lock.core.queue import Queue
from lock.core.reconciler import Reconciler
from tests.lock.core import faults
from tests.lock.core.explorer import Explorer
from tests.lock.core.histories import explain, from_text, main
from tests.lock.core.worlds import WORLDS
from tests.support.waiting import Patch

SMALLEST = [
    ("two", 0), ("threads", 0), ("together", 0), ("ended", 0), ("alone", 1), ("late turn", 0), ("restored", 0),
    ("middle", 0), ("between", 0), ("second", 0), ("own key", 1), ("given up", 2),
    ("other key", 2), ("other reader", 2), ("again", 1),
]  # fmt: skip
SLOW = [("again", 1), ("between", 0), ("second", 0)]
SECONDS = 100.0  # far more than they take


@pytest.mark.parametrize(
    ("world", "faults"), [pytest.param(*each, marks=pytest.mark.slow) if each in SLOW else each for each in SMALLEST]
)
def test_no_history_of_a_small_world_breaks_a_rule(world: str, faults: int) -> None:
    """Never two holders, tokens rise, losses are true and stay, a fence stands, waits end, nothing is left."""
    found = Explorer(WORLDS[world], faults, seconds=SECONDS).run()
    assert not found.violation, explain(world, faults, found)
    assert found.is_complete


def test_two_explorations_find_the_same() -> None:
    """States are counted alike, whatever the order of sets and the addresses of objects."""
    first, again = (Explorer(WORLDS["two"], 0).run() for _ in range(2))
    assert first.states == again.states


def test_one_fault_of_every_kind_is_tried(capsys: pytest.CaptureFixture[str]) -> None:
    """The command explores each kind by itself, and adds up what it has found."""
    functions = {each for each in vars(faults).values() if inspect.isfunction(each)}
    names = {each.__name__ for each in functions if each.__module__ == faults.__name__} - {"faults_of"}
    assert {name for name in names if not name.startswith("_")} == {*faults.KINDS, "back_up"}
    assert main(["--world", "alone", "--faults", "1"]) == 0
    row = capsys.readouterr().out.splitlines()[-1].split()
    found = [Explorer(replace(WORLDS["alone"], kinds=(kind,)), 1).run() for kind in faults.KINDS if kind != "restore"]
    assert row[:2] == ["alone", "1"]
    assert row[-1] == "complete"
    assert int(row[2]) > sum(each.states for each in found) > 500


def test_what_was_cut_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Two faults where the time is over first: neither green nor red, in the row and in the exit code."""
    assert main(["--world", "alone", "--faults", "2", "--seconds", "0.1"]) == 2
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "cut"


MISSING: dict[str, tuple[str, int, Any, str, str, str]] = {  # a world, its faults, and a part of a line taken out
    "a deletion before one's own key grants nothing":
        ("between", 0, Predecessors, "answered", "before is None", "True"),
    "a renewal that comes too late does not count": ("again", 1, Core, "renewed", "now < self.deadline", "True"),
    "a turn that was ended is no hold": ("ended", 1, CohortTurn, "next", "self.check_turn()", "pass"),
    "a key of before a restore is not ours": ("restored", 0, Core, "written", "or not is_ours", ""),
    "a fence is not handed over": ("threads", 0, Core, "release", "not ticket.is_fence and ", ""),
    "a hold does not linger beyond its lease":
        ("late turn", 0, Cohort, "_take_lingering", "or now >= self.core.deadline", ""),
    "nobody knows to be alone without a watch": ("lingers", 1, Queue, "is_alone", "or not self.is_listed", ""),
    "no key is deleted while it is being written": ("alone", 1, Endings, "leave", "not ticket.is_writing", "True"),
    "a wait that is over leaves no key": ("leaver", 0, Endings, "leave", "self._deletions.add(ticket, now)", "pass"),
    "another key of its name is not a ticket's":
        ("other key", 2, Reconciler, "_take", "or kv.create_revision != ticket.created", ""),
    "a write that was not answered is in doubt":
        ("other key", 2, Acquisition, "unanswered", "isinstance(request, Create)", "False"),
}  # fmt: skip


def without(owner: Any, name: str, line: str, instead: str) -> Any:
    """The function with a part of a line replaced."""
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(line) == 1, f"{name} has no {line!r} any more"
    made: dict[str, Any] = {}
    exec(source.replace(line, instead), function.__globals__, made)
    return made[name]


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, marks=pytest.mark.slow) if MISSING[rule][0] in ("leaver", "lingers") else rule
        for rule in MISSING
    ],
)
def test_a_missing_rule_is_found_and_its_history_replayed(
    rule: str, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shortest history is told in words, and as a text that breaks the rule again."""
    world, faults, owner, name, line, instead = MISSING[rule]
    monkeypatch.setattr(owner, name, without(owner, name, line, instead))
    found = Explorer(WORLDS[world], faults, seconds=SECONDS).run()
    assert found.violation
    text = explain(world, faults, found)
    history = text.split('"')[1]
    assert from_text(history) == found.history
    assert main(["--world", world, "--faults", str(faults), "--replay", history]) == 1
    assert found.violation in capsys.readouterr().out
    monkeypatch.undo()
    assert main(["--world", world, "--faults", str(faults), "--replay", history]) == 0
