"""What no guard can beat on this machine, as clicks per second, next to what each guard reached."""

from __future__ import annotations

from loadtest.bench.result import Result, Row
from loadtest.bench.tables import Grid

# Guards under which nobody else may come between the read and the write: two trips to Redis for each purchase.
IN_TURN = ("etcd", "etcd-unfenced", "etcd-cohort", "redis-lock", "redis-watch")
HTTP, TURNS, CPUS = "HTTP alone", "two trips to Redis in turn", "the CPUs"


def limits(result: Result, row: Row) -> dict[str, float]:
    """What holds for this guard, lowest first, in clicks per second."""
    found = {HTTP: result.bounds["http"], CPUS: by_cpus(result, row)}
    if row.case.guard in IN_TURN:
        found[TURNS] = result.bounds["trips"] / 2 / _sold(row)
    return dict(sorted(found.items(), key=lambda limit: limit[1]))


def by_cpus(result: Result, row: Row) -> float:
    """Clicks per second if the CPUs did nothing but what a click costs in instances, etcd, Redis and buyers."""
    return 1000 * int(result.machine["cpus"]) / sum(row.cpu_ms.values())


def _sold(row: Row) -> float:
    """The share of clicks that bought: those who are told that nothing is left may need no turn."""
    return max(row.outcomes.get("sold", 0) / sum(row.outcomes.values()), 0.01)


def limits_grid(result: Result) -> Grid | None:
    """The limits of the rush, if rush and bounds were measured."""
    rows = [_cells(row, limits(result, row)) for row in result.part("rush")] if result.bounds else []
    if not rows:
        return None
    about = (
        "Each column is what the machine would allow if there were nothing else to do. Measured in the same run: HTTP "
        f"alone (a burst of `GET /livez`) {result.bounds['http']:.0f} answers/s; Redis {result.bounds['trips']:.0f} "
        f"trips/s one after the other; etcd {result.bounds['commits']:.0f} commits/s one after the other (those of "
        "several waiters share a commit). *Reached* is of the lowest. What is missing there is waiting: for a commit, "
        "for a thread, and under `redis-lock` for the next look at the lock, which each takes every 0.1 s."
    )
    return Grid("What bounds each guard", about, ["guard", "clicks/s", HTTP, TURNS, CPUS, "lowest", "reached"], rows)


def _cells(row: Row, found: dict[str, float]) -> list[str]:
    lowest = next(iter(found))
    shown = [f"{found[name]:.0f}" if name in found else "-" for name in (HTTP, TURNS, CPUS)]
    return [row.case.guard, f"{row.per_s:.0f}", *shown, lowest, f"{100 * row.per_s / found[lowest]:.0f} %"]
