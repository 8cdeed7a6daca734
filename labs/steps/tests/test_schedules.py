"""Every schedule of two purchases, through real Redis and etcd: what breaks a guard is found, and nothing else."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest

from app.contract.outcomes import Promise
from app.guards import guards
from labs.steps.schedules.explorer import Explorer, faults_of
from labs.steps.schedules.results import Count
from labs.steps.schedules.schedule import Fault, Move, Schedule, moves_of
from labs.steps.schedules.world import Unsettled, World
from tests.support.commands import finished, leaving_nothing, running

pytestmark = pytest.mark.timeout(300)
FLAWED = "labs.steps.tests.flawed_guards"  # not imported above: it would add them for the tests of other files as well


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two instances that know the flawed guards as well."""
    with patch.dict(guards()), World(tmp_path_factory.mktemp("w"), modules=[FLAWED]) as world:
        guards().update(import_module(FLAWED).FLAWED)
        yield world


def explored(world: World, guard: str, fault: Fault = Fault.NONE) -> tuple[Count, list[Schedule]]:
    """All schedules of a guard with this kind of fault."""
    count, found = Count(guard, guards()[guard].promise.value, fault), list(Explorer(world, guard, fault).schedules())
    for schedule in found:
        count.add(schedule)
    return count, found


def replayed(world: World, guard: str, path: str) -> Schedule:
    return Explorer(world, guard).replay(moves_of(path))


def test_without_a_lock_almost_every_order_sells_twice(world: World) -> None:
    """Only those are right in which one reads after the other has written; the shortest of the others is printed."""
    count, found = explored(world, "none")
    assert (count.schedules, count.oversold, count.wrong) == (450, 425, 425)
    assert len({schedule.path for schedule in found}) == 450
    assert count.shortest is not None
    assert count.shortest.line == "A read · B read · B write · A write"
    assert replayed(world, "none", count.shortest.path).ending == count.shortest.ending


def test_a_lock_without_a_fence_needs_a_pause_to_break(world: World) -> None:
    """No order without a fault sells twice; a holder that is paused before its write does."""
    assert explored(world, "etcd-unfenced")[0].wrong == 0
    schedule = replayed(world, "etcd-unfenced", "A.A.A.A.A-pause.B.B.A.B.B.B.B.A")
    assert (schedule.ending.oversold, schedule.line) == (
        1, "A read · A checks · A is paused beyond its lease · B read · A write · B write",
    )  # fmt: skip


@pytest.mark.parametrize(
    "fault", [pytest.param(each, marks=pytest.mark.slow) if each is Fault.PAUSE else each for each in Fault]
)
def test_a_fence_survives_every_order_with_any_fault(world: World, fault: Fault) -> None:
    """Also where the holder is paused, killed, or gets no answer to its write, at each of its points."""
    count, found = explored(world, "etcd", fault)
    assert (count.wrong, count.schedules > 2) == (0, True)
    assert {schedule.moves[-1].move.buyer for schedule in found} == {"A", "B"}
    assert all(fault in (Fault.NONE, *(done.move.fault for done in each.moves)) for each in found)


def test_a_fence_that_only_the_write_raises_is_found_out(world: World) -> None:
    """The late write of a paused holder lands between the next holder's read and its write."""
    assert explored(world, "fence-at-the-write")[0].wrong == 0
    schedule = replayed(world, "fence-at-the-write", "A.A.A.A.A-pause.B.B.A.B.B.B.B.A")
    assert (schedule.ending.oversold, schedule.ending.told_wrong) == (1, 1)
    assert replayed(world, "etcd", "A.A.A.A.A-pause.B.B.A.B.B.B.B.A").ending.is_right


def test_a_guard_that_is_wrong_in_a_single_order_is_found_out(world: World) -> None:
    """One of all its schedules sells twice, and it is that order."""
    count, found = explored(world, "one-order")
    assert (count.wrong, count.kept) == (1, False)
    (wrong,) = (schedule for schedule in found if not schedule.ending.is_right)
    assert wrong.path.startswith("A.B.A.B.B.B.B.A")
    assert count.schedules > 100


def test_a_queue_in_one_instance_is_seen(world: World) -> None:
    """Of three purchases, two are at one instance, and wait there: in the thread lock, the commit queue, the cohort."""
    world.buyers = 3
    try:
        for guard in ("thread", "etcd-batch", "etcd-cohort"):
            world.reset(guard)
            for buyer in "AC":
                world.step(buyer)
            assert [(each.buyer, each.waits) for each in world.purchases if each.waits] == [("C", True)], guard
            while world.purchase("A").stands:
                world.step("A")
            while world.purchase("C").stands:
                world.step("C")
            assert [each.outcome for each in world.purchases] == ["sold", None, "sold_out"], guard
    finally:
        world.buyers = 2


def test_a_wait_that_cannot_be_seen_is_no_verdict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that waits in silence: after some seconds there is an error that says what to do."""
    world.reset("silent")
    world.step("A")
    monkeypatch.setattr("labs.steps.schedules.world.SETTLE_S", 0.5)
    with pytest.raises(Unsettled, match=r"B came to no point within 0.5 s.*check_open"):
        world.step("B")


def test_what_can_fail_depends_on_the_guard() -> None:
    """Only a lock of some kind is lost by a pause, or outlives its holder; no promise, no fault."""
    assert faults_of("none", has_waited=False) == []
    assert faults_of("redis-lua", has_waited=False) == [Fault.LOST]
    assert faults_of("redis-lua", has_waited=True) == [Fault.PAUSE, Fault.KILL, Fault.LOST]
    assert faults_of("etcd", has_waited=True) == [Fault.PAUSE, Fault.KILL, Fault.LOST]
    assert [guard for guard in guards().values() if guard.promise is Promise.NONE]


def test_a_path_is_read_as_it_is_written() -> None:
    """For the address of the scheduler's page."""
    moves = [Move("A"), Move("A", Fault.PAUSE), Move("B"), Move("A", Fault.LOST)]
    assert moves_of(".".join(map(str, moves))) == moves
    with pytest.raises(ValueError, match="freeze"):
        moves_of("A-freeze")


def test_the_command_prints_the_table_and_keeps_the_schedules(tmp_path: Path) -> None:
    """Its exit code is 0, for no guard broke its promise; the file has a row for each schedule."""
    done = finished(tmp_path, "schedules", "--guard", "redis-lua", "--without-faults", "--language", "zh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "redis-lua" in done.stdout
    assert "每个守卫都做到了它的承诺。" in done.stdout
    (path,) = tmp_path.glob("reports/*/schedules-redis-lua.json")
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert len(kept["rows"]) == kept["counts"][0]["schedules"] > 30


@pytest.mark.slow
def test_ctrl_c_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    """Servers and instances are gone, and so is the report without a result."""
    with leaving_nothing(tmp_path, "schedules", "--guard", "none", until="beginning") as command:
        assert command.end(signal.SIGINT) != 0
    assert not any(tmp_path.glob("reports/*"))


@pytest.mark.parametrize("server", ["etcd", "redis|valkey"])
def test_a_server_that_is_gone_is_one_clear_line(tmp_path: Path, server: str) -> None:
    """There is no verdict, exit code 2, and no traceback."""
    with running(tmp_path, "schedules", "--guard", "etcd", until="beginning") as command:
        (process,) = (each for each in command.children() if re.search(server, Path(each.cmdline()[0]).name))
        process.kill()
        command.printed += command.process.communicate(timeout=60)[0]
        assert command.process.returncode == 2, command.printed
    assert "Traceback" not in command.printed
    assert "Error: no verdict: " in command.printed.splitlines()[-1]
