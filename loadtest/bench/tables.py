"""What `make bench` found out, as tables; the marked blocks of a document show them, its text is written by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from loadtest.bench.result import BenchResult, Case, Row
from loadtest.bench.suite import about
from loadtest.results.text import counted

_BLOCK = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)


class Column(NamedTuple):
    """A heading and how to fill it."""

    heading: str
    cell: Callable[[BenchResult, Row], str]


def _times(guard: str) -> Callable[[BenchResult, Row], str]:
    def cell(result: BenchResult, row: Row) -> str:
        ratio = result.ratio(row, guard)
        return "-" if ratio is None else f"{ratio:.2f}"

    return cell


def setting(case: Case) -> str:
    """What differs among the cases of a part besides the guard; empty if nothing does."""
    shown = {
        "shards": f"{counted(case.redis_nodes, 'node')}, {counted(case.stock, 'item')}",
        "flood": f"room for {case.queue:,}",
        "scale": f"{case.buyers} buyers, {counted(case.instances, 'instance')}",
    }
    return shown.get(case.part, "")


def _spread(result: BenchResult, row: Row) -> str:
    return f"{min(row.walls_s):.2f}-{max(row.walls_s):.2f}" if len(row.walls_s) > 1 else "one round"


def _verdict(result: BenchResult, row: Row) -> str:
    worst = max(row.verdicts, key=lambda verdict: (verdict != "EXACT", row.verdicts[verdict]))
    return worst if row.exact or len(row.verdicts) == 1 else f"{worst}, ..."


GUARD = Column("guard", lambda result, row: row.case.guard)
SETTING = Column("setting", lambda result, row: setting(row.case))
WALL = Column("wall s", lambda result, row: f"{row.wall_s:.3f}")
SPREAD = Column("min-max", _spread)
TO_NONE = Column("x none", _times("none"))
TO_LUA = Column("x redis-lua", _times("redis-lua"))
RATE = Column("clicks/s", lambda result, row: f"{row.per_s:.0f}")
P50 = Column("p50 ms", lambda result, row: f"{row.purchase_ms.p50:.0f}")
P99 = Column("p99 ms", lambda result, row: f"{row.purchase_ms.p99:.0f}")
CALLS = Column("etcd RPCs", lambda result, row: f"{row.etcd_calls:.2f}")
EVENTS = Column("etcd events", lambda result, row: f"{row.etcd_events:.2f}")
TRIPS = Column("Redis trips", lambda result, row: f"{row.redis_trips:.2f}")
PUTS = Column("locks", lambda result, row: f"{row.etcd_puts:.2f}")
NODE_TRIPS = Column("busiest node", lambda result, row: f"{row.node_trips:.2f}")
CPU = [
    Column(f"CPU ms {name}", lambda result, row, name=name: f"{row.cpu_ms[name]:.2f}")  # type: ignore[misc]
    for name in ("instances", "etcd", "redis")
]
BUSY = Column("busy", lambda result, row: f"{100 * row.outcomes.get('busy', 0) / sum(row.outcomes.values()):.0f} %")
SERVED = Column("served", lambda result, row: f"{100 * row.served():.1f} %")
VERDICT = Column("verdict", _verdict)

COLUMNS = {
    "rush": [GUARD, WALL, SPREAD, TO_NONE, TO_LUA, CALLS, EVENTS, TRIPS, *CPU, VERDICT],
    "crowd": [GUARD, WALL, SPREAD, TO_NONE, TO_LUA, RATE, TRIPS, *CPU, VERDICT],
    "open": [GUARD, P50, P99, SERVED, CALLS, TRIPS, *CPU, VERDICT],
    "shards": [GUARD, SETTING, RATE, PUTS, TRIPS, NODE_TRIPS, *CPU, VERDICT],
    "flood": [GUARD, SETTING, WALL, SPREAD, BUSY, P50, P99, VERDICT],
    "scale": [GUARD, SETTING, WALL, SPREAD, RATE, CALLS, TRIPS, *CPU],
}


class Grid(NamedTuple):
    """A table, whatever it is drawn with."""

    name: str
    about: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def grids(result: BenchResult) -> Iterator[Grid]:
    """One table for each part that was measured."""
    for name, columns in COLUMNS.items():
        rows = [[column.cell(result, row) for column in columns] for row in result.part(name)]
        if rows:
            yield Grid(name, about(name), [column.heading for column in columns], rows)


def filled(text: str, result: BenchResult, foreseen: Iterable[Grid] = ()) -> str:
    """`text` with these tables and the result's in its marked blocks; raises ValueError for one that was not made."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    machine = f"{result.machine['cpus']} CPUs ({result.machine['system']} {result.machine['machine']})"
    made = {"machine": f"Measured {result.started} on {machine}; {versions}."}
    made |= {grid.name: _markdown(grid) for grid in (*grids(result), *foreseen)}

    def block(found: re.Match[str]) -> str:
        if found[2] not in made:
            raise ValueError(f"the document shows {found[2]}, which was not measured")
        return f"{found[1]}{made[found[2]]}\n{found[3]}"

    return _BLOCK.sub(block, text)


def _markdown(grid: Grid) -> str:
    lines = [grid.headings, ["---"] * len(grid.headings), *grid.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
