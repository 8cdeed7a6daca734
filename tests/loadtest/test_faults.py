"""Faults: scenarios against a real stack, what is expected of them, and what is left afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from app.guards import GUARDS as APP_GUARDS
from loadtest.audit import audit
from loadtest.faults.act import VICTIM, Act
from loadtest.faults.command import GUARDS
from loadtest.faults.disturbances import LONGEST_S, TARGETS, plan
from loadtest.faults.programme import BY_NAME, Programme
from loadtest.faults.result import BREAKS_NOT, Result, problems
from loadtest.faults.scenario import Expected, Scenario
from loadtest.faults.table import table
from loadtest.record import Record
from loadtest.verdict import Verdict
from tests.leftovers import assert_gone, directories_of

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "tests/data"
FAULTS = [sys.executable, "-m", "loadtest", "faults"]
EXACT = Verdict(sold=300, oversold=0, undersold=0, lost_updates=0, duplicates=0, missing=0, contradicted=0, in_doubt=0)
slow = pytest.mark.timeout(180)


@contextmanager
def running(directory: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command, whose reports go to `directory`."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([*FAULTS, *words], cwd=directory, env=env, **pipes) as command:  # type: ignore[call-overload]
        try:
            yield command
        finally:
            command.kill()


@slow
def test_a_frozen_holder_breaks_the_unfenced_guard_alone(tmp_path: Path) -> None:
    """The same pause: exact with a fencing token, oversold without one; the records tell why."""
    with running(tmp_path, "pause-holder", "--guard=etcd", "--guard=etcd-unfenced") as command:
        printed, _ = command.communicate()
    assert command.returncode == 0, printed
    assert "2 runs, 0 not as expected" in printed
    (records,) = (tmp_path / "reports").glob("latest/records")
    fenced, unfenced = (Record.read(records / f"pause-holder-{guard}.json") for guard in ("etcd", "etcd-unfenced"))
    assert (audit(fenced).findings(), audit(fenced).sold) == ([], 300)
    assert audit(unfenced).sold > 300
    for record, outcome in ((fenced, "lock_lost"), (unfenced, "sold")):
        (section,) = [section for section in record.sections if section.buyer == VICTIM]
        assert section.outcome == outcome
        assert any(VICTIM in (each.first.buyer, each.second.buyer) for each in audit(record).overlaps)
        assert [event.text for event in record.events][1] == "shop-a is frozen"


@slow
def test_only_the_fence_refuses_a_late_write(tmp_path: Path) -> None:
    """A write that was sent in time and arrives after others have sold is refused, and its buyer has one order."""
    with running(tmp_path, "delayed-write", "--guard=etcd") as command:
        printed, _ = command.communicate()
    assert command.returncode == 0, printed
    (path,) = (tmp_path / "reports").glob("latest/records/*.json")
    record = Record.read(path)
    assert record.expectation == {"expected": "EXACT", "as_expected": True, "problems": []}
    first, *_, last = [answer for answer in record.answers if answer.buyer == VICTIM]
    assert (first.outcome, first.in_doubt, last.outcome) == ("unavailable", True, "sold")
    assert len([row for row in record.ledger if row.buyer == VICTIM]) == 1


class Nothing(Scenario):
    """Leaves the sale alone, and expects it to break."""

    name = "nothing"
    what = "nothing"
    unfenced = Expected.BREAKS

    def play(self, act: Act) -> None:
        act.let_sell(10)


@slow
def test_a_scenario_that_proves_nothing_fails(tmp_path: Path) -> None:
    """If an unfenced guard survives what it must not survive, the run is not as expected."""
    programme = Programme(Console(file=(tmp_path / "out").open("w")), tmp_path, seconds=1, seed=1)
    programme.play(Nothing, ["etcd-unfenced"])
    (result,) = programme.results
    assert (result.observed, list(result.problems), result.as_expected) == ("EXACT", [BREAKS_NOT], False)


@slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_however_it_ends(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, SIGTERM or kill -9 while a shop is frozen: no process, frozen or not, and no directory is left."""
    with running(tmp_path, "pause-holder", "--guard=etcd") as command:
        assert command.stdout is not None
        while "is frozen" not in (line := command.stdout.readline()):
            assert line, "it ended before anything was frozen"
        children = psutil.Process(command.pid).children(recursive=True)
        directories = directories_of(children)
        assert any(child.status() == psutil.STATUS_STOPPED for child in children)
        command.send_signal(number)
        command.wait(30)
    assert_gone(children, directories)


def test_what_is_expected_is_part_of_the_scenario() -> None:
    """An exact guard is exact in every scenario; others break where a holder outlives its lease, and nowhere else."""
    for scenario in BY_NAME.values():
        assert scenario.what
        assert scenario.expected(scenario.__new__(scenario), "exact") is Expected.EXACT
    breaking = {name for name, scenario in BY_NAME.items() if scenario.unfenced is Expected.BREAKS}
    assert breaking == {"pause-holder", "delayed-write"}


def test_every_guard_with_a_lock_can_be_played() -> None:
    """What has no lock that could be lost is left out: nothing, a lock in the process, and Redis's own means."""
    left_out = {"none", "thread", "redis-watch", "redis-lua"}
    assert set(GUARDS) == {guard.name for guard in APP_GUARDS} - left_out


@pytest.mark.parametrize(
    ("expected", "verdict", "found"),
    [
        (Expected.EXACT, EXACT, []),
        (Expected.EXACT, replace(EXACT, oversold=2, lost_updates=2), ["OVERSOLD by 2"]),
        (Expected.EXACT, replace(EXACT, undersold=1), ["UNDERSOLD by 1"]),
        (Expected.BREAKS, EXACT, [BREAKS_NOT]),
        (Expected.BREAKS, replace(EXACT, undersold=3), [BREAKS_NOT]),
        (Expected.BREAKS, replace(EXACT, lost_updates=1), []),
        (Expected.EITHER, EXACT, []),
        (Expected.EITHER, replace(EXACT, oversold=2), []),
    ],
)
def test_a_run_is_held_against_what_was_expected(expected: Expected, verdict: Verdict, found: list[str]) -> None:
    """Exact means exact; broken means oversold or updates lost, and underselling does not count as that."""
    clean = replace(audit(Record.read(DATA / "rush-etcd.json")), stock=8)
    assert problems(expected, verdict, clean) == found


@pytest.mark.parametrize("expected", list(Expected))
def test_a_buyer_without_an_answer_is_never_expected(expected: Expected) -> None:
    """Whatever is broken, everybody gets an answer in the end."""
    silent = replace(audit(Record.read(DATA / "rush-etcd.json")), unanswered=["ada"])
    assert "1 buyers without an answer" in problems(expected, replace(EXACT, lost_updates=1), silent)


@given(st.integers())
def test_a_seed_repeats_its_plan(seed: int) -> None:
    """The same seed, the same disturbances at the same times; of one target only one at a time."""
    planned = plan(Random(seed))
    assert planned == plan(Random(seed))
    assert 1 <= len(planned) <= 4
    assert len({each.target for each in planned}) == len(planned)
    assert all(0 < each.lasts <= LONGEST_S for each in planned)


def test_every_disturbance_comes_up() -> None:
    """Sooner or later each kind is planned, for both shops."""
    random = Random(1)
    planned = [each for _ in range(300) for each in plan(random)]
    assert {each.disturbance for each in planned} == set(TARGETS)
    assert {each.shop for each in planned} == {0, 1}


def test_the_table_says_what_is_not_as_expected(tmp_path: Path) -> None:
    """A row fits into 80 columns and says whether it is as expected; plain text has no box characters."""
    row = Result("pause-holder", "etcd", Expected.EXACT, "OVERSOLD by 2", 302, 0, 300, 2, 2.5, ["OVERSOLD by 2"])
    with (tmp_path / "out").open("w+") as out:
        Console(file=out, width=80).print(table([row, replace(row, problems=[])], plain=True))
        out.seek(0)
        printed = out.read()
    rows = [line.split() for line in printed.splitlines()[-2:]]
    shown = ["pause-holder", "etcd", "EXACT", "OVERSOLD", "by", "2", "302", "2", "2.5"]
    assert rows == [[*shown, "NO"], [*shown, "yes"]]
    assert printed.isascii()
