"""Every schedule of two purchases, through real Redis and etcd: what breaks a guard is found, and nothing else."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest

from app.guards import Guard, guards
from labs.steps.guard_files import GuardFile
from labs.steps.mistakes import diff_of, mended, mistakes
from labs.steps.mistakes_command import Judgement
from labs.steps.schedules.explorations import explored
from labs.steps.schedules.explorer import KILL, LOST, NO_FAULT, PAUSE, Budget, Explorer, Task
from labs.steps.schedules.graph import State
from labs.steps.schedules.quiescence import NoVerdict
from labs.steps.schedules.results import Count
from labs.steps.schedules.schedule import Ending, Fault, Move, Schedule, moves_of
from labs.steps.schedules.world import World
from labs.steps.stepped import POINTS
from labs.steps.tests import strange_guards
from labs.steps.tests.flawed_guards import FLAWED
from tests.support.commands import finished, leaving_nothing, running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
LATE_WRITE = "A.A.A.A.A-pause.B.B.B.B.B.B.A"
BETWEEN = "A.A.A.A.A-pause.B.B.B.B.A.B.B"
GUARDS: dict[str, type[Guard]] = {**guards(), **FLAWED}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("w")) as world:
        yield world


def tried(world: World, guard: str, budget: Budget = NO_FAULT) -> tuple[Count, Explorer]:
    """All orders of a guard within this budget of faults."""
    *_, found = explored(world, Task(GuardFile.of(GUARDS[guard]), budget, seconds=240))
    assert found.explorer is not None
    return found.count, found.explorer


def replayed(world: World, guard: str, path: str) -> Schedule:
    return Explorer(world, Task(GuardFile.of(GUARDS[guard]))).replay(moves_of(path))


def test_without_a_lock_most_orders_sell_twice(world: World) -> None:
    """Only those are right in which one reads after the other has written; the shortest of the others is printed."""
    count, explorer = tried(world, "none")
    assert (count.states, count.orders, count.oversold, count.wrong, count.cut) == (23, 20, 12, 12, 0)
    assert (count.ends, count.wrong_ends) == (6, 2)
    assert (
        " · ".join(count.shortest[0].words)
        == "A begins · A read.lua · B begins · B read.lua · B write.lua, told sold · A write.lua, told sold"
    )
    assert replayed(world, "none", count.shortest[0].path).ending == count.shortest[0].ending
    assert all(state.shown.purchases for state in explorer.graph.states)


@pytest.mark.slow
def test_an_instance_begins_with_a_session(world: World) -> None:
    """Also where etcd did not answer it in time at first: each purchase of a state begins alike."""
    log = world.directory / "instances.log"
    before = log.read_text()
    world.servers.etcd.pause()
    try:
        instance = world._new_instance()
        wait_until(lambda: "not ready yet" in log.read_text().removeprefix(before), timeout=20)
    finally:
        world.servers.etcd.resume()
    assert instance.ready().ask("lease") != 0
    instance.kill()


def paths_from(state: State, way: tuple[Move, ...] = ()) -> Iterator[tuple[list[Move], Ending]]:
    """Every order from this state on, and how its end was judged."""
    if state.ending is not None:
        yield [*way], state.ending
    for move, to in state.moves.items():
        assert to is not None
        yield from paths_from(to, (*way, move))


@pytest.mark.parametrize(
    "guard",
    [
        GuardFile.of(guards()["none"]),
        pytest.param(GuardFile(strange_guards.__file__, "halves"), marks=[pytest.mark.slow, pytest.mark.long]),
    ],
    ids=lambda guard: guard.name,
)
def test_every_path_to_a_state_is_judged_alike(world: World, guard: GuardFile) -> None:
    """Each order, made anew from its first move, ends as the state to which it leads says."""
    explorer = Explorer(world, Task(guard))
    for _ in explorer.explore():
        pass
    orders = [*paths_from(explorer.graph.states[0])]
    assert len(orders) == explorer.graph.orders()["all"] > len(explorer.graph.ends)
    for moves, ending in orders:
        assert Explorer(world, Task(guard)).replay(moves).ending == ending, moves


def test_a_state_that_is_judged_in_two_ways_has_no_verdict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the judge may read besides the state: here it reads the order in which the ends were reached."""
    judged, endings = Explorer._judged, count()
    monkeypatch.setattr(
        Explorer, "_judged", lambda self: replace(judged(self), ending=Ending(told_wrong=next(endings)))
    )
    assert "one state was judged in two ways" in tried(world, "redis-watch")[0].no_verdict


def test_a_lock_without_a_fence_needs_a_pause_to_break(world: World) -> None:
    """No order without a fault sells twice; a holder that is paused before its write does."""
    assert tried(world, "etcd-unfenced")[0].wrong == 0
    schedule = replayed(world, "etcd-unfenced", LATE_WRITE)
    assert (schedule.ending.oversold, " · ".join(schedule.words)) == (
        1, "A begins · A read.lua · A Txn put · A read.lua · A is paused beyond its lease · B begins · B read.lua"
        " · B Txn put · B read.lua · B write.lua · B Txn delete_range, told sold · A write.lua, told sold",
    )  # fmt: skip


@pytest.mark.parametrize(
    "budget",
    [pytest.param(each, marks=pytest.mark.slow) for each in (PAUSE, KILL, LOST)],
    ids=lambda budget: budget.name,
)
def test_a_fence_survives_every_order_with_a_fault(world: World, budget: Budget) -> None:
    """Also if the holder is paused or killed before any command, or the answer to one that writes is lost."""
    count, explorer = tried(world, "etcd", budget)
    assert (count.wrong_ends, count.cut) == (0, 0)
    made = {move.fault for state in explorer.graph.states for move in state.moves}
    assert made == {Fault.NONE, *budget.kinds}


def test_a_fence_that_only_the_write_raises_is_found_out(world: World) -> None:
    """The late write of a paused holder lands between the next holder's read and its write."""
    assert tried(world, "fence-at-the-write")[0].wrong == 0
    schedule = replayed(world, "fence-at-the-write", BETWEEN)
    assert schedule.ending.oversold == 1
    assert replayed(world, "etcd", BETWEEN).ending.is_right


@pytest.mark.parametrize(
    ("guard", "line"),
    [
        (
            "pipeline",
            "A begins · A GET stock · B begins · B GET stock · B DECRBY stock · B MULTI, told sold · A DECRBY stock",
        ),
        pytest.param(
            "clock-queue",
            "B begins · B ZADD queue · B ZRANGE queue · B read.lua · A begins · A ZADD queue",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_comes_between_two_commands_is_found(world: World, guard: str, line: str) -> None:
    """Also between those of a pipeline that is no transaction, and where clocks are compared."""
    count, _ = tried(world, guard)
    assert (count.kept, count.cut) == (False, 0)
    assert " · ".join(count.shortest[0].words).startswith(line)


@pytest.mark.slow
@pytest.mark.parametrize(("guard", "orders"), [("baton", 100), ("key-queue", 10)])
def test_right_guards_that_wait_are_tried_to_the_end(world: World, guard: str, orders: int) -> None:
    """What blocks in Redis is sent once more when something has changed; keys of etcd are seen as they were made.

    Where their names are chance, the answer that has them is the same in each run that made them so.
    """
    count, explorer = tried(world, guard)
    assert count.orders > orders
    assert (count.wrong, count.cut) == (0, 0)
    assert guard != "baton" or any(each.shown.purchases[1][4] for each in explorer.graph.states)  # B waits


def test_a_buyer_who_is_told_sold_out_while_the_item_is_there_is_told_wrong(world: World) -> None:
    """Also if the purchase that was to have it is in doubt: it is dead, and has bought nothing."""
    assert replayed(world, "ticket", "A.A-kill-sent.B.B.B.B").ending == Ending(told_wrong=1)
    assert replayed(world, "ticket", "A.A.A.A-kill-sent.B.B.B.B").ending.is_right


def test_what_was_found_without_a_fault_is_not_tried_again(world: World) -> None:
    """With what is known, fewer steps lead to the same graph."""
    _, known = tried(world, "redis-lua")
    graphs, steps = [], []
    for before in (None, known):
        with patch.object(world, "step", wraps=world.step) as step:
            explorer = Explorer(world, Task(GuardFile.of(guards()["redis-lua"]), PAUSE, known=before))
            graphs.append([*explorer.explore()][-1])
            steps.append(step.call_count)
    assert {(len(graph.states), graph.orders()["all"], graph.cut) for graph in graphs} == {(32, 26, 0)}
    assert steps[1] < steps[0]


@pytest.mark.slow
def test_a_pause_ends_a_lease_that_no_key_has(world: World) -> None:
    """Of two states that differ in nothing else, one can use it."""
    count, explorer = tried(world, "granted", PAUSE)
    assert (count.cut, count.wrong) == (0, 0)
    assert "unavailable" in {row[9] for end in explorer.graph.ends for row in end.shown.purchases}


def test_a_script_that_changes_nothing_loses_no_answer(world: World) -> None:
    """The read does not, without a fence: only the writes of two purchases may lose theirs."""
    _, explorer = tried(world, "none", LOST)
    lost = [each.done[move].command for each in explorer.graph.states for move in each.done if move.fault is Fault.LOST]
    assert {command.split()[1] for command in lost} == {"write.lua"}


def test_a_lock_that_is_never_released_is_a_deadlock(world: World) -> None:
    """The second purchase waits, with nobody left to wake it, in every order."""
    count, _ = tried(world, "leak")
    assert (count.deadlock, count.wrong, count.kept) == (count.orders, count.orders, False)


def test_what_the_last_command_of_the_dead_has_changed_is_worth_another_try(world: World) -> None:
    """It came amid an attempt that was in vain: the purchase does not wait for ever, but tries once more."""
    assert not replayed(world, "two-keys", "A.A.B.B.B.B.B.B.A.A-kill-sent.B").moves[-1].waits


def test_a_guard_that_depends_on_chance_has_no_verdict(world: World) -> None:
    """One state had two futures: both ways there are told."""
    said = tried(world, "chance")[0].no_verdict
    assert re.match(r"chance has one state with two futures, .*: '.* in the other\. Draw", said)


def test_a_queue_in_one_instance_is_seen(world: World) -> None:
    """Of three purchases, two are at one instance, and wait there: in the thread lock, the commit queue, the cohort."""
    world.buyers = 3
    try:
        for guard, steps in (("thread", 1), ("etcd-batch", 2), ("etcd-cohort", 3)):
            world.reset(GuardFile.of(guards()[guard]))
            for buyer in "A" * steps + "C" * steps:
                if world.purchase(buyer).can_step:
                    world.step(buyer)
            assert [(each.buyer, each.waits) for each in world.purchases if each.waits] == [("C", True)], guard
            while world.purchase("A").can_step:
                world.step("A")
            while world.purchase("C").can_step:
                world.step("C")
            assert [each.outcome for each in world.purchases] == ["sold", None, "sold_out"], guard
    finally:
        world.buyers = 2


def test_a_wait_that_cannot_be_seen_is_no_verdict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that waits in silence: after some seconds there is an error that says what to do."""
    world.reset(GuardFile.of(GUARDS["silent"]))
    monkeypatch.setattr("labs.steps.schedules.quiescence.LIMIT_S", 0.5)
    world.step("B")
    assert world.purchase("B").waits
    world.step("A")
    line = r"flawed_guards.py, line \d+ \(threading.Event\(\).wait\([^,]*\)\)\. "  # and none of ours beside it
    with pytest.raises(NoVerdict, match=rf"B came to no command within 0.5 s and is in {line}A loop .*check_open"):
        world.step("A")


def test_an_answer_that_is_late_is_no_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A purchase that stops at its points alone has come to the next one when its step is over."""
    monkeypatch.setattr(world, "granularity", POINTS)
    world.reset(GuardFile.of(GUARDS["late-answer"]))
    world.step("A")
    assert (world.purchase("A").point, world.purchase("A").waits) == ("locked", False)


@pytest.mark.slow
def test_the_command_prints_the_table_and_keeps_the_schedules(tmp_path: Path) -> None:
    """Its exit code is 0, for no guard broke its promise; the file has the graph, and the film of each end."""
    done = finished(tmp_path, "schedules", "--guard", "redis-lua", "--items", "1", "--faults", "0", "--language", "zh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "redis-lua" in done.stdout
    assert "每个守卫都做到了它的承诺。" in done.stdout
    (path,) = tmp_path.glob("reports/*/schedules-redis-lua.json")
    kept = json.loads(path.read_text(encoding="utf-8"))
    (graph,) = kept["graphs"]
    assert len(graph["states"]) == len(graph["moves"]) == kept["counts"][0]["states"] > 5
    assert len(graph["ends"]) == kept["counts"][0]["ends"] == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "until"),
    [
        (["schedules", "--guard", "etcd"], "purchases at"),
        (["schedules", "--guard", "etcd"], ""),
        (["mistakes"], "states so far"),
        (["site", "--recordings", "."], " KB"),
    ],
    ids=["schedules", "schedules-starting", "mistakes", "site"],
)
def test_one_ctrl_c_ends_all_processes(tmp_path: Path, words: list[str], until: str) -> None:
    """It says so in one sentence; servers and instances are gone, and so is the report without a result."""
    (tmp_path / "records").mkdir()
    (tmp_path / "scene.json").touch()  # which the site would record before
    with leaving_nothing(tmp_path, *words, until=until) as command:
        command.end(signal.SIGINT, timeout=5.0)  # also on a busy machine
    assert command.printed.splitlines()[-1] == "Interrupted: everything is stopped."
    assert "Traceback" not in command.printed
    assert not any(tmp_path.glob("reports/*"))


@pytest.mark.slow
@pytest.mark.parametrize("server", ["etcd", "redis|valkey"])
def test_a_server_that_is_gone_is_one_clear_line(tmp_path: Path, server: str) -> None:
    """There is no verdict, exit code 2, and no traceback."""
    with running(tmp_path, "schedules", "--guard", "etcd", until="purchases at") as command:
        for process in command.children():
            with suppress(psutil.NoSuchProcess):  # it ends with another one that was killed
                if re.search(server, process.name()):
                    process.kill()
        command.printed += command.process.communicate(timeout=60)[0]
        assert command.process.returncode == 2, command.printed
    assert "Traceback" not in command.printed
    assert "Error: no verdict: " in command.printed.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.skipif(not mistakes(), reason="labs/mistakes was deleted")
def test_two_mistakes_are_condemned_and_cleared_when_they_are_mended(tmp_path: Path) -> None:
    """The command says which order breaks each, and with which lines none does; its exit code is 0."""
    done = finished(tmp_path, "mistakes", "ask-then-decrease", "delete-unowned")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("ask-then-decrease", "delete-unowned"):
        assert f"{name}: {Judgement.CONDEMNED.value}" in done.stdout
        assert f"{name}-mended: {Judgement.CLEARED.value}" in done.stdout
    assert "  A begins · A GET stock · B begins · B GET stock · B MULTI, told sold" in done.stdout
    assert "+                self.release(key, owner)" in done.stdout


@pytest.mark.parametrize("name", mistakes())
def test_a_mend_changes_its_guard_alone(name: str) -> None:
    """The mended class is another one with the same promise, and its lines can be shown."""
    kind = mistakes()[name]
    assert (mended(kind).name, mended(kind).promise) == (f"{name}-mended", kind.promise)
    changed = [line for line in diff_of(kind) if line[0] in "+-"]
    assert changed[:2] == [f"--- {name}", f"+++ {name}-mended"]
    assert len(changed) > 2


ASKED_WHILE_GARBAGE_IS_COLLECTED = """
import gc, threading, time
from labs.steps.frames import current_frames

class Garbage:
    def __del__(self):
        time.sleep(0.001)  # another thread goes on meanwhile

def ask():
    for _ in range(20):
        garbage = Garbage()
        garbage.itself = garbage
        del garbage
        current_frames()
        time.sleep(0.002)

gc.set_threshold(1)
threads = [threading.Thread(target=ask) for _ in range(3)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_that_garbage_is_collected_meanwhile_hangs_nobody() -> None:
    """Threads ask for each other's frames, with garbage about that takes its time, and none waits for ever."""
    subprocess.run([sys.executable, "-c", ASKED_WHILE_GARBAGE_IS_COLLECTED], check=True, timeout=30)
