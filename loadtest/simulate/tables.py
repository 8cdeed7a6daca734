"""What goes into a simulation, and what comes out, as tables."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from loadtest.bench.result import BenchResult
from loadtest.bench.tables import Grid
from loadtest.simulate.costs import Costs
from loadtest.simulate.prediction import Prediction
from loadtest.simulate.rush import SOLD, SOLD_OUT, Setting

_GOOD = 1.2  # how far apart measured and foreseen may be, as a factor


def steps(costs: Costs) -> Grid:
    """Milliseconds of CPU time that a step takes; of the last two, milliseconds until it is done."""
    found = {
        "a trip to Redis, in an instance": costs.trip,
        "a trip to Redis, in Redis": costs.redis_trip,
        "a call to etcd, in an instance": costs.rpc,
        "a call to etcd, in etcd": costs.etcd_rpc,
        "a watch message, in an instance": costs.event,
        "a watch message, in etcd": costs.etcd_event,
        "a click, in the buyer": costs.buyer,
        "etcd's log reaches the disk": costs.sync,
        "hand-over of the mutex to another process": costs.handover,
    }
    return Grid("steps", str(steps.__doc__), ["step", "ms"], [[name, f"{1000 * s:.3f}"] for name, s in found.items()])


def ceilings(costs: Costs) -> Grid:
    """Sales of one item per second, however many instances there are."""
    trip, group = costs.trip + costs.redis_trip, costs.settings["group"]
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
