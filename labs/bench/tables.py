"""The result of `bench` as tables; the marked blocks of the lab's pages show them, whose text is written by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from labs.bench.ceilings import MEASURED_WITH, Demands, demands
from labs.bench.result import BenchResult, Case, Row
from labs.bench.suite import BARE_DECR, PARTS
from loadtest.results.json_files import KeptError
from loadtest.results.text import pluralize

INSTANCES = (1, 2, 4, 10, 100, 1000)
THINK_S = 10.0
_BLOCK = re.compile(r"(<!-- bench:(\w+) -->\n).*?(<!-- /bench -->)", re.DOTALL)
_TIMES = ("wall s", "min-max", "x none")
_BARE = ("x bare", "x bare on all CPUs")
_CPU = ("CPU ms instances", "CPU ms etcd", "CPU ms redis")
COLUMNS = {
    "rush": ("guard", "runs on", *_TIMES, "etcd RPCs", "Redis trips", *_CPU, "verdict"),
    "click": ("guard", "runs on", "clicks/s", *_BARE, "p50 ms", "p99 ms", "etcd RPCs", "Redis trips", *_CPU),
    "open": ("guard", "p50 ms", "p99 ms", "served", "etcd RPCs", "Redis trips", *_CPU, "verdict"),
    "instances": ("guard", "setting", "wall s", "min-max", "x none", "clicks/s", "verdict"),
    "hold": ("guard", "setting", "wall s", "min-max", "x none", "clicks/s", "verdict"),
}


class ResultTable(NamedTuple):
    """A table of texts, for the terminal or a document."""

    name: str
    about: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def all_tables(result: BenchResult) -> Iterator[ResultTable]:
    """One table for each part that was measured, and the ceilings."""
    for name, headings in COLUMNS.items():
        if cells := [_cells(result, row) for row in result.part(name)]:
            rows = [[each[heading] for heading in headings] for each in cells]
            yield ResultTable(name, str(PARTS[name].__doc__), headings, rows)
    if found := demands(result):
        yield _ceiling_table(found, result.handover_ms)


def _ceiling_table(found: Sequence[Demands], handover_ms: float) -> ResultTable:
    """What each guard can reach at most."""
    headings = ["guard", "instance ms", *(f"{name} ms" for name in found[0].shared), "bottleneck", "from instances"]
    headings += [f"N*, Z = {THINK_S:g} s", *(f"{number:,}" for number in INSTANCES)]
    rows = []
    for each in found:
        row = [each.guard, f"{each.instance:.2f}", *(f"{ms:.3f}" for ms in each.shared.values())]
        row += [each.bottleneck, str(each.enough_instances), _two_digits(each.saturation(MEASURED_WITH, THINK_S))]
        rows.append([*row, *(_two_digits(each.ceiling(number)) for number in INSTANCES)])
    about = (
        "Milliseconds of each server for a click; then the clicks per second at most, by the number of instances. "
        f"A hand-over of the lock took {handover_ms:.2f} ms."
    )
    return ResultTable("ceilings", about, headings, rows)


def _two_digits(number: float) -> str:
    """A number as exactly as it is known."""
    return f"{float(f'{number:.2g}'):,.0f}"


def setting(case: Case) -> str:
    """What differs among the cases of a part besides the guard; empty if nothing does."""
    shown = {"instances": pluralize(case.instances, "instance"), "hold": f"{case.hold_ms} ms"}
    return shown.get(case.part, "")


def full_name(case: Case) -> str:
    """The guard, the setting, and where the instances run if that is compared in this part."""
    where = ("one CPU" if case.pinned else "all CPUs") if "runs on" in COLUMNS[case.part] else ""
    return ", ".join(filter(None, (case.guard, setting(case), where)))


def _cells(result: BenchResult, row: Row) -> dict[str, str]:
    low, high = min(row.walls_s), max(row.walls_s)
    worst = max(row.verdicts, key=lambda verdict: (verdict != "EXACT", row.verdicts[verdict]))
    return {
        "guard": row.case.guard,
        "setting": setting(row.case),
        "wall s": f"{row.wall_s:.3f}",
        "min-max": f"{low:.2f}-{high:.2f}" if len(row.walls_s) > 1 else "one round",
        "x none": result.multiple(row, "none"),
        "runs on": "one CPU" if row.case.pinned else "all CPUs",
        "x bare": result.multiple(row, BARE_DECR, speed=True),
        "x bare on all CPUs": result.multiple(row, BARE_DECR, speed=True, pinned=False),
        "clicks/s": f"{row.per_s:.0f}",
        "p50 ms": f"{row.purchase_ms.p50:.0f}",
        "p99 ms": f"{row.purchase_ms.p99:.0f}",
        "served": f"{100 * row.share('sold', 'sold_out'):.1f} %",
        "etcd RPCs": f"{row.etcd_calls:.2f}",
        "Redis trips": f"{row.redis_trips:.2f}",
        **{f"CPU ms {name}": f"{ms:.2f}" for name, ms in row.cpu_ms.items()},
        "verdict": worst if len(row.verdicts) == 1 else f"{worst}, ...",
    }


def fill_blocks(text: str, result: BenchResult) -> str:
    """`text` with this result's tables in its marked blocks; raises KeptError for one that was not measured."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    machine = f"{result.cpus} CPUs ({result.machine['system']} {result.machine['machine']})"
    others = f"Other programs took {100 * result.others_share:.0f} % of the CPU time"
    made = {"machine": f"Measured {result.started} on {machine}; {versions}. {others}."}
    made |= {table.name: _markdown(table) for table in all_tables(result)}
    if found := demands(result):
        made["ceilings"] += f"\n\n{_ceiling_table(found, result.handover_ms).about}"

    def block(found: re.Match[str]) -> str:
        if found[2] not in made:
            raise KeptError(f"the document shows {found[2]}, which was not measured")
        return f"{found[1]}{made[found[2]]}\n{found[3]}"

    return _BLOCK.sub(block, text)


def _markdown(table: ResultTable) -> str:
    lines = [table.headings, ["---"] * len(table.headings), *table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
