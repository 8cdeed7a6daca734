"""What `make bench` found out, as tables; the marked blocks of a document show them, its text is written by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from labs.bench.result import BenchResult, Case, Row
from labs.bench.suite import PARTS
from loadtest.results.json_files import KeptError
from loadtest.results.text import pluralize

_BLOCK = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)
# Guards under which no other purchase comes between the read and the write: two trips to Redis for each purchase.
_IN_TURN = ("etcd", "etcd-unfenced", "etcd-cohort", "redis-lock", "redis-watch")
_HTTP, _TURNS, _CPUS = "HTTP alone", "two trips to Redis in turn", "the CPUs"
_TIMES = ("wall s", "min-max", "x none", "x redis-lua")
_CPU = ("CPU ms instances", "CPU ms etcd", "CPU ms redis")
COLUMNS = {
    "rush": ("guard", *_TIMES, "etcd RPCs", "etcd events", "Redis trips", *_CPU, "verdict"),
    "crowd": ("guard", *_TIMES, "clicks/s", "Redis trips", *_CPU, "verdict"),
    "open": ("guard", "p50 ms", "p99 ms", "served", "etcd RPCs", "Redis trips", *_CPU, "verdict"),
    "instances": ("guard", "setting", "wall s", "min-max", "x none", "clicks/s", "verdict"),
    "hold": ("guard", "setting", "wall s", "min-max", "x none", "clicks/s", "verdict"),
    "items": ("guard", "setting", "wall s", "min-max", "clicks/s", "etcd RPCs", *_CPU, "verdict"),
    "shards": ("guard", "setting", "clicks/s", "locks", "Redis trips", "busiest node", *_CPU, "verdict"),
    "flood": ("guard", "setting", "wall s", "min-max", "busy", "p50 ms", "p99 ms", "verdict"),
    "scale": ("guard", "setting", "wall s", "min-max", "clicks/s", "etcd RPCs", "Redis trips", *_CPU),
}


def setting(case: Case) -> str:
    """What differs among the cases of a part besides the guard; empty if nothing does."""
    shown = {
        "instances": pluralize(case.instances, "instance"),
        "hold": f"{case.hold_ms} ms",
        "items": pluralize(case.items, "item"),
        "shards": f"{pluralize(case.redis_nodes, 'node')}, {pluralize(case.stock, 'item')}",
        "flood": f"room for {case.queue:,}",
        "scale": f"{case.buyers} buyers, {pluralize(case.instances, 'instance')}",
    }
    return shown.get(case.part, "")


def _cells(result: BenchResult, row: Row) -> dict[str, str]:
    """What a table can show of a case, by heading."""
    low, high = min(row.walls_s), max(row.walls_s)
    worst = max(row.verdicts, key=lambda verdict: (verdict != "EXACT", row.verdicts[verdict]))
    return {
        "guard": row.case.guard,
        "setting": setting(row.case),
        "wall s": f"{row.wall_s:.3f}",
        "min-max": f"{low:.2f}-{high:.2f}" if len(row.walls_s) > 1 else "one round",
        "x none": _times(result.ratio(row, "none")),
        "x redis-lua": _times(result.ratio(row, "redis-lua")),
        "clicks/s": f"{row.per_s:.0f}",
        "p50 ms": f"{row.purchase_ms.p50:.0f}",
        "p99 ms": f"{row.purchase_ms.p99:.0f}",
        "busy": f"{100 * row.share('busy'):.0f} %",
        "served": f"{100 * row.share('sold', 'sold_out'):.1f} %",
        "etcd RPCs": f"{row.etcd_calls:.2f}",
        "etcd events": f"{row.etcd_events:.2f}",
        "locks": f"{row.etcd_puts:.2f}",
        "Redis trips": f"{row.redis_trips:.2f}",
        "busiest node": f"{row.node_trips:.2f}",
        **{f"CPU ms {name}": f"{ms:.2f}" for name, ms in row.cpu_ms.items()},
        "verdict": worst if len(row.verdicts) == 1 else f"{worst}, ...",
    }


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


class Grid(NamedTuple):
    """A table, whatever it is drawn with."""

    name: str
    about: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def grids(result: BenchResult) -> Iterator[Grid]:
    """One table for each part that was measured."""
    for name, headings in COLUMNS.items():
        if cells := [_cells(result, row) for row in result.part(name)]:
            yield Grid(
                name, str(PARTS[name].__doc__), headings, [[each[heading] for heading in headings] for each in cells]
            )


def memory(result: BenchResult) -> Grid:
    """Peak memory, MiB."""
    rows = [[part, *(f"{mib:.0f}" for mib in peaks.values())] for part, peaks in result.peak_mib.items()]
    return Grid("memory", str(memory.__doc__), ["part", "one instance", "etcd", "Redis"], rows)


def limits(result: BenchResult) -> Grid:
    """What bounds the rush under each guard, and how much of the lowest limit was reached."""
    headings = ["guard", "clicks/s", _HTTP, _TURNS, _CPUS, "lowest", "reached"]
    return Grid("limits", str(limits.__doc__), headings, [_limit_cells(result, row) for row in result.part("rush")])


def _limit_cells(result: BenchResult, row: Row) -> list[str]:
    # If the CPUs did nothing but what a click costs in instances, etcd, Redis and buyers.
    found = {_HTTP: result.bounds["http"], _CPUS: 1000 * int(result.machine["cpus"]) / sum(row.cpu_ms.values())}
    if row.case.guard in _IN_TURN:  # a buyer that is told "sold out" may need no turn
        found[_TURNS] = result.bounds["trips"] / 2 / max(row.share("sold"), 0.01)
    lowest = min(found, key=lambda name: found[name])
    shown = [f"{found[name]:.0f}" if name in found else "-" for name in (_HTTP, _TURNS, _CPUS)]
    return [row.case.guard, f"{row.per_s:.0f}", *shown, lowest, f"{100 * row.per_s / found[lowest]:.0f} %"]


def bounds(result: BenchResult) -> Grid:
    """What this machine can do at most, each alone."""
    names = {"http": "HTTP answers/s", "trips": "Redis trips/s", "commits": "etcd commits/s"}
    return Grid("bounds", str(bounds.__doc__), list(names.values()), [[f"{result.bounds[name]:.0f}" for name in names]])


def filled(text: str, result: BenchResult, others: Iterable[Grid]) -> str:
    """`text` with these tables and the result's in its marked blocks; raises KeptError for one that was not made."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    machine = f"{result.machine['cpus']} CPUs ({result.machine['system']} {result.machine['machine']})"
    made = {"machine": f"Measured {result.started} on {machine}; {versions}."}
    made |= {grid.name: _markdown(grid) for grid in (*grids(result), *others)}

    def block(found: re.Match[str]) -> str:
        if found[2] not in made:
            raise KeptError(f"the document shows {found[2]}, which was not measured")
        return f"{found[1]}{made[found[2]]}\n{found[3]}"

    return _BLOCK.sub(block, text)


def _markdown(grid: Grid) -> str:
    lines = [grid.headings, ["---"] * len(grid.headings), *grid.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
