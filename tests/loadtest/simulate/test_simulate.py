"""The simulation: what holds whatever was measured, and what it has to agree on with a measured run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import simpy
from click.testing import CliRunner

from app.config.settings import Settings
from app.guards.etcd_sharded import POLL_S
from app.guards.redis_watch import LONGEST_PAUSE_S, PAUSE_S
from app.sales.commit_queue import MOST_AT_ONCE
from loadtest.bench.costs import SETTINGS
from loadtest.bench.result import BenchResult, Row
from loadtest.cli.main import cli
from loadtest.results.kept import KeptError
from loadtest.simulate.costs import Costs
from loadtest.simulate.guards import GUARDS
from loadtest.simulate.machine import LOCK_TIMEOUT, Cpus, Program
from loadtest.simulate.prediction import Prediction
from loadtest.simulate.rush import BUSY, SOLD, SOLD_OUT, Setting

DOCUMENT = Path(__file__).parents[3] / "docs/scaling.md"
FILE = Path(__file__).parents[2] / "data/bench-small.json"
KEPT = BenchResult.read(FILE)
MEASURED = Costs.of(KEPT)
# Guards that were not measured cost what `etcd-cohort` does: what holds for any costs can be shown with these.
COSTS = replace(
    MEASURED,
    told=dict.fromkeys(GUARDS, MEASURED.told["etcd-cohort"]),
    sold=dict.fromkeys(GUARDS, MEASURED.sold["etcd-cohort"]),
)
SMALL = ["--buyers", "400", "--stock", "100", "--instances", "4"]
EXACT = [guard for guard in GUARDS if guard not in ("none", "thread")]


def play(guard: str, buyers: int = 120, stock: int = 60, instances: int = 2, **settings: bool | float) -> Prediction:
    return Prediction.of(COSTS, Setting(guard, buyers, stock, instances, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("stock", [0, 60, 200])
@pytest.mark.parametrize("guard", EXACT)
def test_every_buyer_is_answered_once_and_what_is_there_is_sold(guard: str, stock: int) -> None:
    """No click is lost or answered twice, and an exact guard sells the stock or to every buyer."""
    made = play(guard, stock=stock, instances=3)
    assert made.outcomes.get(SOLD, 0) == min(stock, 120)
    assert made.outcomes.get(SOLD_OUT, 0) == max(120 - stock, 0)
    assert sum(made.outcomes.values()) == 120
    assert 0 < made.p50_s <= made.p99_s <= made.wall_s
    assert made.sold_s <= made.wall_s


def test_a_sale_may_cost_less_than_a_refusal() -> None:
    """As measured for guards that poll: what a click costs is never less than nothing."""
    cheap = replace(COSTS, sold=dict.fromkeys(GUARDS, 0.0))
    assert Prediction.of(cheap, Setting("redis-watch", 120, 60, 2)).outcomes == {SOLD: 60, SOLD_OUT: 60}


def test_the_race_is_there_without_a_lock() -> None:
    """Two instances that do not know of each other's lock oversell, as do threads without one."""
    assert play("none").outcomes[SOLD] > 60
    assert play("thread").outcomes[SOLD] > 60
    assert play("thread", instances=1).outcomes[SOLD] == 60


@pytest.mark.parametrize("guard", ["etcd", "etcd-unfenced"])
def test_no_lock_is_faster_than_its_hand_overs(guard: str) -> None:
    """Each sale but the first of an instance's run waits for a commit of etcd where the lock goes back and forth."""
    made = Prediction.of(replace(COSTS, sync=0.05), Setting(guard, 2, 2, 2))
    assert made.wall_s >= 3 * 0.05  # the first key (or both at once), its deletion, the other's deletion
    slow = Prediction.of(replace(COSTS, trip=0.01), Setting(guard, 20, 20, 2))
    assert slow.wall_s >= 20 * 2 * 0.01


@pytest.mark.parametrize("guard", ["etcd", "etcd-cohort", "etcd-batch", "redis-lua"])
def test_more_cpus_never_slow_a_rush(guard: str) -> None:
    """Twice the CPUs, and then a machine each, take at most as long."""
    setting = Setting(guard, 200, 100, 4)
    one, two, many = (Prediction.of(replace(COSTS, cpus=cpus), setting).wall_s for cpus in (1, 2, 64))
    assert one >= two >= many


def test_a_program_waits_for_one_cpu_and_shares_it() -> None:
    """Any that is busy, even if the other is idle sooner; but three that always have work end together."""
    env = simpy.Environment()
    cpus, waits = Cpus(env, 2), set()
    longest, short, third = programs = [Program(env, cpus) for _ in range(3)]
    for began in range(1, 2000, 100):
        env.run(began)
        long = longest.run(10), short.run(1)
        env.run(began + 0.5)
        env.run(third.run(1))
        waits.add(env.now - began)
        env.run(env.all_of(long))
    assert waits == {2, 11}
    shared_from = env.now
    env.run(env.all_of([program.run(0.001) for program in programs for _ in range(1000)]))
    assert 1.5 <= env.now - shared_from < 1.7


def test_a_request_after_a_pause_costs_its_server_more() -> None:
    """The one that wakes it up; the next finds it awake. It is what requests cost in a rush beyond a crowd's."""
    env = simpy.Environment()
    server = Program(env, None, wake=1.0)
    env.run(2)
    env.run(env.all_of([server.run(0.1), server.run(0.1)]))
    assert env.now == server.busy_s + 2 == pytest.approx(3.2)
    costs = [replace(row, cpu_ms={**row.cpu_ms, "redis": 0.3 * row.redis_trips}) for row in KEPT.part("costs")]
    assert Costs.of(replace(KEPT, rows=costs)).redis_wake == pytest.approx(0.0003 - MEASURED.redis_trip)


@pytest.mark.parametrize(
    "row", KEPT.part("scale"), ids=lambda row: f"{row.case.guard}-{row.case.instances}-{row.case.buyers}"
)
def test_trips_and_calls_are_those_that_the_servers_counted(row: Row) -> None:
    """Before any time can be right: within 5 % of a click's trips and calls in the kept run, or within 0.12."""
    case = row.case  # how many clicks begin after the first look, and need no call, is the kernel's choice
    made = Prediction.of(MEASURED, Setting(case.guard, case.buyers, case.stock, case.instances))
    assert made.trips == pytest.approx(row.redis_trips, rel=0.05, abs=0.12)
    assert made.rpcs == pytest.approx(row.etcd_calls, rel=0.05, abs=0.12)


@pytest.mark.parametrize("guard", [guard for guard in GUARDS if guard.startswith("etcd")])
@pytest.mark.parametrize("seconds", [0.002, 0.005, 0.01, 0.05])
def test_no_buyer_is_left_without_an_answer_when_time_is_short(guard: str, seconds: float) -> None:
    """Leaders whose time is up, also while their key is being written, leave the lead to others."""
    hasty = replace(COSTS, settings={**COSTS.settings, "threads": 8.0, "lock_timeout_s": seconds})
    made = Prediction.of(hasty, Setting(guard, 60, 20, 2, apart=True, rtt_s=0.001, horizon_s=60.0))
    assert sum(made.outcomes.values()) == 60


def test_an_instance_keeps_its_place_when_the_time_of_its_leader_is_up() -> None:
    """As in `lock/recipes/cohort.py`, the next thread takes the key over: each key that is written comes to sell."""
    hasty = replace(COSTS, trip=0.02, settings={**COSTS.settings, "threads": 20.0, "lock_timeout_s": 0.2})
    made = Prediction.of(hasty, Setting("etcd-cohort", 300, 300, 3, apart=True))
    assert made.outcomes[LOCK_TIMEOUT] > 200
    assert made.rpcs * 300 / 2 <= made.outcomes[SOLD]


def test_a_long_queue_in_an_instance_does_not_keep_the_lock_there() -> None:
    """The lock is passed on while thousands wait to be told that all is sold, so the others learn it in time."""
    quick = replace(COSTS, settings={**COSTS.settings, "queue": 5000.0, "lock_timeout_s": 2.0})
    made = Prediction.of(quick, Setting("etcd-batch", 40_000, 1000, 8, apart=True, rtt_s=0.0005))
    assert made.outcomes == {SOLD: 1000, SOLD_OUT: 39_000}


def test_an_instance_without_room_says_so_at_once() -> None:
    """What is in hand is bounded: of clicks that are read faster than they are answered, some are told `busy`."""
    little = replace(COSTS, settings={**COSTS.settings, "queue": 20.0})
    made = Prediction.of(little, Setting("redis-lua", 100, 100, 1, apart=True))
    assert made.outcomes[SOLD] + made.outcomes[BUSY] == 100
    assert 20 <= made.outcomes[SOLD] <= 50


def test_nothing_is_foreseen_beyond_the_horizon() -> None:
    """What is not over by then has no wall time."""
    made = play("etcd", apart=True, rtt_s=0.5, horizon_s=2.0)
    assert made.wall_s == made.p99_s == float("inf")


def test_settings_are_those_of_the_shop() -> None:
    """What the simulation is told of instances and guards is their default."""
    assert (SETTINGS["threads"], SETTINGS["lock_timeout_s"]) == (Settings.threads, Settings.lock_timeout)
    assert (SETTINGS["watch_pause_s"], SETTINGS["watch_longest_s"]) == (PAUSE_S, LONGEST_PAUSE_S)
    assert (SETTINGS["group"], SETTINGS["shards"]) == (MOST_AT_ONCE, Settings.shards)
    assert SETTINGS["queue"] == Settings.queue
    assert SETTINGS["shard_poll_s"] == POLL_S


def test_a_part_that_was_not_measured_is_named() -> None:
    """One line says what is missing and how to measure it."""
    for lacking, name in [
        (replace(KEPT, rows=KEPT.part("scale")), "part 'costs'"),
        (replace(KEPT, bounds={name: KEPT.bounds[name] for name in KEPT.bounds if name != "sync_ms"}), "sync_ms"),
    ]:
        with pytest.raises(KeptError, match=f"^the result has no {name}; measure it with [^\n]*$"):
            Costs.of(lacking)


def test_the_command_fills_a_document(tmp_path: Path) -> None:
    """Tables go into the marked blocks of docs/scaling.md, and the picture into its file."""
    document, chart = tmp_path / "scaling.md", tmp_path / "scaling.svg"
    document.write_text(DOCUMENT.read_text(encoding="utf-8"), encoding="utf-8")
    done = CliRunner().invoke(cli, ["simulate", str(FILE), *SMALL, "--document", str(document), "--chart", str(chart)])
    assert done.exit_code == 0, done.output
    machine, steps, foreseen, ceilings, flood, apart = re.findall(
        r"<!-- bench:(\w+ -->\n.*?)\n<!-- /bench", document.read_text(), re.DOTALL
    )
    assert machine.startswith("machine -->\nMeasured ")
    assert f"| etcd's log reaches the disk | {KEPT.bounds['sync_ms']:.3f} |" in steps
    assert f"| etcd, etcd-unfenced | 1 / hand-over | {1000 / KEPT.bounds['handover_ms']:,.0f} |" in ceilings
    assert foreseen.count("\n| etcd") == sum(row.case.guard.startswith("etcd") for row in KEPT.part("scale"))
    assert re.findall(r"^\| (\S+) \| 4 \|", apart, re.MULTILINE) == ["etcd", "etcd-cohort", "redis-lua"]
    assert flood.count("| room for ") == 3
    assert chart.read_text().startswith("<svg")


@pytest.mark.parametrize("guard", ["redis-lock", "redis-watch", "etcd-unfenced"])
def test_guards_that_poll_or_are_as_fast_as_another_are_foreseen_by_name_only(tmp_path: Path, guard: str) -> None:
    """The table leaves them out by default, as docs/scaling.md says, although they were measured."""
    costs = KEPT.part("costs")
    more = [replace(row, case=replace(row.case, guard=guard)) for row in costs if row.case.guard == "redis-lua"]
    measured = tmp_path / "bench.json"
    replace(KEPT, rows=[*costs, *more]).write(measured)
    few = ["simulate", str(measured), "--buyers", "40", "--stock", "20", "--instances", "2"]
    shown, named = (CliRunner().invoke(cli, [*few, *option]).output for option in ([], ["--guard", guard]))
    assert "etcd-cohort" in shown
    assert guard not in shown.rpartition("used most")[2]
    assert guard in named.rpartition("used most")[2]


def test_a_guard_that_was_not_measured_is_one_line() -> None:
    """Nothing is made up for it."""
    refused = CliRunner().invoke(cli, ["simulate", str(FILE), *SMALL, "--guard", "redis-watch"])
    assert refused.exit_code == 1
    assert refused.output == "Error: the clicks under 'redis-watch' were not measured\n"
