"""The costs of a simulation, from a kept result of `make bench`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.bench.costs import SETTINGS
from loadtest.bench.result import BenchResult, Row
from loadtest.results.kept import KeptError

_STEPS = ("redis_trip_ms", "rpc_ms", "etcd_rpc_ms", "event_ms", "etcd_event_ms", "sync_ms", "busy_ms", "handover_ms")


@dataclass(frozen=True)
class Costs:
    """What a step takes, in seconds of CPU time unless said otherwise.

    Attributes:
        cpus: of the machine on which this was measured.
        told, sold: of an instance for a click that is told that all is sold, and for one that buys, by guard; without
            its trips, RPCs and watch messages, each of which costs the instance `trip`, `rpc` or `event`.
        buyer: of the buyer for a click and its answer.
        redis_wake, etcd_wake: of the server, for a request that comes after a pause, over `redis_trip` or `etcd_rpc`.
        handover: not an input.
        settings: see `loadtest.bench.costs.SETTINGS`; for all others, see `measure_costs` there.
    """

    cpus: int
    told: dict[str, float]
    sold: dict[str, float]
    busy: float
    trip: float
    redis_trip: float
    rpc: float
    etcd_rpc: float
    event: float
    etcd_event: float
    redis_wake: float
    etcd_wake: float
    buyer: float
    sync: float
    handover: float
    settings: dict[str, float]

    @classmethod
    def of(cls, result: BenchResult) -> Costs:
        """The costs of each guard in the part `costs`; raises KeptError where something was not measured."""
        rows, bounds = result.part("costs"), result.bounds
        missing = [name for name in ("trip_ms", *_STEPS, *SETTINGS) if name not in bounds]
        if missing or not rows:
            name = (*missing, "part 'costs'")[0]
            raise KeptError(f"the result has no {name}; measure it with python -m loadtest bench --part scale")
        steps = {name.removesuffix("_ms"): bounds[name] / 1000 for name in _STEPS}
        steps["trip"] = _trip(rows, bounds["trip_ms"] / 1000)
        told, sold = dict[str, float](), dict[str, float]()
        for row in rows:
            calls = row.etcd_calls * steps["rpc"] + row.etcd_events * steps["event"]
            own = max(row.cpu_ms["instances"] / 1000 - row.redis_trips * steps["trip"] - calls - steps["busy"], 0.0)
            (told if row.case.stock < row.case.buyers else sold)[row.case.guard] = own
        trips = [(row.redis_trips, row.cpu_ms["redis"]) for row in rows]
        rpcs = [(row.etcd_calls, row.cpu_ms["etcd"] - row.etcd_events * bounds["etcd_event_ms"]) for row in rows]
        steps["buyer"] = statistics.mean(row.cpu_ms["buyers"] for row in rows) / 1000
        steps |= {"redis_wake": _wake(trips, steps["redis_trip"]), "etcd_wake": _wake(rpcs, steps["etcd_rpc"])}
        return cls(int(result.machine["cpus"]), told, sold, settings={name: bounds[name] for name in SETTINGS}, **steps)


def _trip(rows: Sequence[Row], least: float) -> float:
    """What a trip costs among hundreds of threads: the slope over all guards, if there is one that polls."""
    rows = [row for row in rows if row.etcd_calls < 1 / 10]
    if not any(row.redis_trips > 4 for row in rows):  # none of these guards polls
        return least
    line = statistics.linear_regression([row.redis_trips for row in rows], [row.cpu_ms["instances"] for row in rows])
    return max(line.slope / 1000, least)


def _wake(seen: Sequence[tuple[float, float]], crowded: float) -> float:
    """How much more a request costs in a rush, where most come after a pause, from requests and milliseconds."""
    if max(seen)[0] < 1 / 2:  # none of these guards makes one for each click
        return 0.0
    each_ms = sum(requests * ms for requests, ms in seen) / sum(requests**2 for requests, _ in seen)
    return max(each_ms / 1000 - crowded, 0.0)
