"""What the measurement was meant to show, and whether it did."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.bench.limits import by_cpus
from loadtest.bench.result import BenchResult, Row

AT_MOST = (
    ("rush", "etcd-batch", "none", 1.0),
    ("rush", "etcd-cohort", "none", 1.25),
    ("rush", "etcd", "none", 3.0),
    ("crowd", "etcd-batch", "redis-lua", 1.1),
)
_SLEEP_S = 0.1  # of redis-py's lock between two looks


def aims(result: BenchResult) -> Iterator[str]:
    """A sentence for each that was measured."""
    rows = {(row.case.part, row.case.guard): row for row in result.rows if row.case.part in ("rush", "crowd")}
    for part, guard, to, most in AT_MOST:
        row = rows.get((part, guard))
        ratio = result.ratio(row, to) if row else None
        if ratio is not None:
            yield f"{part}: `{guard}` at most {most:g} x `{to}`: {ratio:.2f} x, {_judged(ratio <= most)}."
    slow, fast = rows.get(("rush", "redis-lock")), rows.get(("rush", "etcd-cohort"))
    if slow and fast:
        yield _polling(result, slow, fast)
    items = {row.case.items: row for row in result.part("items") if row.case.guard == "etcd"}
    if 1 in items and 20 in items:
        yield _growth(result, items[1], items[20])


def _judged(reached: bool) -> str:
    return "reached" if reached else "missed"


def _polling(result: BenchResult, slow: Row, fast: Row) -> str:
    """While n look every 0.1 s, a free lock is taken after 0.1 s / n on average; so the sum is what the sleep costs."""
    ratio, buyers = slow.wall_s / fast.wall_s, slow.case.buyers
    idle_s = sum(_SLEEP_S / waiting for waiting in range(1, buyers + 1))
    reason = (
        f"Whoever waits sleeps {_SLEEP_S:g} s between two looks, but of {buyers} who wait somebody looks every "
        f"{1000 * _SLEEP_S / buyers:.1f} ms, so the lock is left free for about {idle_s:.1f} s in all"
    )
    if result.bounds:
        busy_s = buyers / by_cpus(result, slow)
        reason += f"; for {slow.redis_trips:.0f} trips to Redis a click the CPUs need {busy_s:.1f} s"
    return (
        f"rush: `redis-lock` at least 10 x as long as `etcd-cohort`: {ratio:.1f} x, {_judged(ratio >= 10)}. {reason}. "
        f"It takes {slow.wall_s:.1f} s."
    )


def _growth(result: BenchResult, one: Row, twenty: Row) -> str:
    growth, most = one.wall_s / twenty.wall_s, by_cpus(result, twenty) / one.per_s
    return (
        f"items: `etcd` with 20 items at least 3 x the throughput of one: {growth:.1f} x, {_judged(growth >= 3)}. The "
        f"CPUs allow {most:.1f} x: one item keeps them busy to {100 * one.per_s / by_cpus(result, one):.0f} %, twenty "
        f"to {100 * twenty.per_s / by_cpus(result, twenty):.0f} %."
    )
