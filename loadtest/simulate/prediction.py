"""What a rush comes to, a setting played once; and the tables of `docs/scaling.md`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from loadtest.bench.clients import without_garbage_collection
from loadtest.bench.result import BenchResult
from loadtest.bench.tables import Grid
from loadtest.simulate.costs import Costs
from loadtest.simulate.guards import GUARDS
from loadtest.simulate.rush import SOLD, SOLD_OUT, Setting, SimulatedRush

_FULL = 0.9
_GOOD = 1.2  # how far apart measured and foreseen may be, as a factor
_WAITS_FOR = {"redis-lock": "pauses", "redis-watch": "pauses", "none": "", "redis-lua": "", "etcd-sharded": ""}


@dataclass(frozen=True)
class Prediction:
    """What a setting comes to.

    Attributes:
        wall_s: until the last answer; infinite where the horizon came before.
        sold_s: until the last sale.
        p50_s, p99_s: from the burst to the answer of so many buyers; infinite as above.
        outcomes: clicks by outcome.
        trips, rpcs: to Redis and to etcd, per click.
        limit: what is used most, with the share of the time; or what the clicks wait for while nothing is busy.
    """

    setting: Setting
    wall_s: float
    sold_s: float
    p50_s: float
    p99_s: float
    outcomes: dict[str, int]
    trips: float
    rpcs: float
    limit: str

    @classmethod
    def of(cls, costs: Costs, setting: Setting) -> Prediction:
        """Play it; raises KeyError for a guard whose clicks were not measured."""
        rush, buyers, outcomes = SimulatedRush(costs, setting, GUARDS[setting.guard]), setting.buyers, Counter[str]()
        with without_garbage_collection():
            rush.run()
        for _, clicks, outcome in rush.answers:
            outcomes[outcome] += clicks
        sold_s = max((at for at, _, outcome in rush.answers if outcome == SOLD), default=0.0)
        wall_s, p50_s, p99_s = (_answered(rush, share * buyers) for share in (1.0, 0.5, 0.99))
        counts = rush.trips / buyers, rush.rpcs / buyers
        return cls(setting, wall_s, sold_s, p50_s, p99_s, dict(outcomes), *counts, _limit(rush))


def _answered(rush: SimulatedRush, buyers: float) -> float:
    """When so many have their answer."""
    for at, clicks, _ in rush.answers:
        buyers -= clicks
        if buyers <= 0:
            return at
    return inf


def _limit(rush: SimulatedRush) -> str:
    instances = [instance.process.busy_s for instance in rush.instances]
    used = {
        "Redis": max(node.busy_s for node in rush.redis),
        "etcd's CPUs": rush.etcd.busy_s / rush.etcd.threads,
        "etcd's log": rush.log.busy_s,
        "Python": max(instances),
    }
    if not rush.setting.apart:
        others = sum(each.busy_s for each in (*rush.redis, rush.etcd, rush.buyers))
        used["the CPUs"] = (sum(instances) + others) / rush.costs.cpus
    most, name = max((seconds, name) for name, seconds in used.items())
    share, waits_for = most / rush.env.now, _WAITS_FOR.get(rush.setting.guard, "turns")
    return f"{waits_for}, {name} {100 * share:.0f} %" if waits_for and share < _FULL else f"{name} {100 * share:.0f} %"


def steps(costs: Costs) -> Grid:
    """Milliseconds of CPU time that a step takes; of the last two, milliseconds until it is done."""
    found = {
        "a trip to Redis, in an instance": costs.trip,
        "a trip to Redis, in Redis": costs.redis_trip,
        "a trip after a pause, in Redis": costs.redis_trip + costs.redis_wake,
        "a call to etcd, in an instance": costs.rpc,
        "a call to etcd, in etcd": costs.etcd_rpc,
        "a call after a pause, in etcd": costs.etcd_rpc + costs.etcd_wake,
        "a watch message, in an instance": costs.event,
        "a watch message, in etcd": costs.etcd_event,
        "a click, in the buyer": costs.buyer,
        "etcd's log reaches the disk": costs.sync,
        "hand-over of the mutex to another process": costs.handover,
    }
    return Grid("steps", str(steps.__doc__), ["step", "ms"], [[name, f"{1000 * s:.3f}"] for name, s in found.items()])


def ceilings(costs: Costs) -> Grid:
    """Sales of one item per second, however many instances there are."""
    trip, group = costs.trip + costs.redis_trip + costs.redis_wake, costs.settings["group"]
    turns = min(costs.settings["cohort_turns"], costs.settings["cohort_slice_s"] / (2 * trip))
    found = [
        ("etcd, etcd-unfenced", "1 / hand-over", 1 / costs.handover),
        ("etcd-cohort", "turns / (turns x 2 trips + hand-over)", turns / (turns * 2 * trip + costs.handover)),
        ("etcd-batch", "group / (trip + hand-over)", group / (trip + costs.handover)),
        ("redis-lock", "1 / 4 trips, without the trips of those who wait", 1 / (4 * trip)),
        ("redis-watch", "1 / 2 trips", 1 / (2 * trip)),
        ("redis-lua", "1 / what a trip costs Redis", 1 / costs.redis_trip),
    ]
    rows = [[*row, f"{n:,.0f}"] for *row, n in found]
    return Grid("ceilings", str(ceilings.__doc__), ["guard", "ceiling", "sales/s"], rows)


def foreseen(costs: Costs, result: BenchResult) -> Grid:
    """The wall time of every case of the part "scale", and trips and calls per click: measured, foreseen."""
    rows = []
    for row in result.part("scale"):
        case = row.case
        made = Prediction.of(costs, Setting(case.guard, case.buyers, case.stock, case.instances))
        ratio = made.wall_s / row.wall_s
        bold = "" if 1 / _GOOD <= ratio <= _GOOD else "**"
        walls = [f"{row.wall_s:.3f}", f"{made.wall_s:.3f}", f"{bold}{ratio:.2f}{bold}"]
        counts = [f"{row.redis_trips:.2f}, {made.trips:.2f}", f"{row.etcd_calls:.2f}, {made.rpcs:.2f}"]
        rows.append([case.guard, str(case.instances), f"{case.buyers:,}", *walls, *counts])
    headings = ["guard", "instances", "buyers", "measured s", "foreseen s", "ratio", "Redis trips", "etcd RPCs"]
    return Grid("foreseen", str(foreseen.__doc__), headings, rows)


def apart(made: Iterable[Prediction]) -> Grid:
    """Seconds, with a machine each for the instances, etcd and Redis."""
    rows = []
    for each in made:
        told = sum(each.outcomes.get(outcome, 0) for outcome in (SOLD, SOLD_OUT)) / each.setting.buyers
        late = f"> {each.setting.horizon_s:.0f}"
        times = [late if s == inf else f"{s:.1f}" for s in (each.sold_s, each.wall_s, each.p50_s, each.p99_s)]
        rows.append([each.setting.guard, f"{each.setting.instances:,}", *times, f"{100 * told:.0f} %", each.limit])
    headings = ["guard", "instances", "last sale", "wall", "p50", "p99", "served", "used most"]
    return Grid("apart", str(apart.__doc__), headings, rows)
