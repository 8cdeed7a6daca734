"""What a rush comes to: a setting played once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import inf

from loadtest.bench.clients import without_garbage_collection
from loadtest.simulate.costs import Costs
from loadtest.simulate.guards import GUARDS
from loadtest.simulate.rush import SOLD, Setting, SimulatedRush

_FULL = 0.9
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
