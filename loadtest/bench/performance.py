"""docs/performance.md from the JSON file of a run of `make bench`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadtest.bench.result import Result, Row
from loadtest.bench.tables import grids

_INTRODUCTION = """\
# Performance

Written by `python -m loadtest performance reports/latest/bench.json` from a run of `make bench`; nothing here is
typed by hand. Buyers, instances, etcd and Redis share one machine, so compare the rows of one table with each other,
and nothing with figures from elsewhere. Times are medians over the rounds, which are interleaved; CPU, RPCs and trips
are per click.
"""
_BOUNDS = """\
## What bounds each guard

No guard can be faster than the processors that do its work, nor than what it has to do one after the other. *CPU
bound* is the number of processors divided by the CPU time that a click takes in instances, etcd and Redis (the buyers
take some as well, so it is never reached); *commit bound* is the rate of serial commits to this etcd divided by those
that a click needs. The last column says how much of the lower one was reached.
"""


def performance(result: Result) -> str:
    """The document; sections of parts that were not measured are left out."""
    return "\n".join([_INTRODUCTION, *_machine(result), *_bounds(result), *_tables(result)])


def _machine(result: Result) -> Iterator[str]:
    machine = result.machine
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    where = f"{machine['cpus']} CPUs ({machine['system']}, {machine['machine']})"
    yield f"Measured {result.started} on {where}: {versions}.\n"
    yield _table(
        ["alone, in the same run", "per second"], [[name, f"{rate:.0f}"] for name, rate in result.bounds.items()]
    )


def _bounds(result: Result) -> Iterator[str]:
    rows = [_bound(result, row) for row in result.part("rush")]
    if rows:
        yield _BOUNDS
        yield _table(["guard", "clicks/s", "CPU bound", "commit bound", "reached"], rows)


def _bound(result: Result, row: Row) -> Sequence[str]:
    by_cpu = 1000 * result.machine["cpus"] / sum(row.cpu_ms.values())
    by_commits = result.bounds["commits"] / row.etcd_calls if row.etcd_calls else float("inf")
    commits = f"{by_commits:.0f}" if row.etcd_calls else "-"
    return [row.case.guard, f"{row.per_s:.0f}", f"{by_cpu:.0f}", commits, f"{row.per_s / min(by_cpu, by_commits):.0%}"]


def _tables(result: Result) -> Iterator[str]:
    for grid in grids(result):
        yield f"## {grid.name}\n\n{grid.about}\n"
        yield _table(grid.headings, grid.rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
