"""docs/performance.md from the JSON file of a run of `make bench`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from loadtest.bench.aims import aims
from loadtest.bench.limits import by_cpus, limits_grid
from loadtest.bench.result import BenchResult
from loadtest.bench.tables import Grid, grids

HOW = """\
## How it was measured

Written by `python -m loadtest performance FILE...` from what `make bench` has measured; do not edit it by hand.

In each part all guards are measured in one run, on one machine that also runs etcd, Redis, the instances and the
buyers. Rounds are interleaved (every guard once, then every guard again), so that a disturbance hits all; the first
round warms up and is not counted. There is only one round, not warmed up, of the open load and, outside the rush, of
`redis-lock` and `redis-watch`, which take so much longer. Wall time is from the first click to the last answer, shown
as the median with the fastest and the slowest round. RPCs, events and trips are those that etcd and Redis have counted
themselves. All of them, and CPU time, are per click."""


def performance(result: BenchResult) -> str:
    """The whole document."""
    sections = [
        _machine(result),
        _buyers(result),
        *(_section(grid.name.capitalize(), grid) for grid in grids(result)),
        _limits(result),
        _aims(result),
        _memory(result),
    ]
    return "\n\n".join(["# Performance", *filter(None, [_summary(result), HOW, *sections])]) + "\n"


def _summary(result: BenchResult) -> str:
    """What the tables come to, for those who read no further."""
    lines = [*_costs(result), *_limit(result), *_short_cut(result)]
    return "## In short\n\n" + "\n".join(lines) if lines else ""


def _costs(result: BenchResult) -> Iterator[str]:
    """Every guard next to no lock and next to no need of one."""
    rows = sorted(result.part("rush"), key=lambda row: row.wall_s)
    ratios = [(row.case.guard, result.ratio(row, "none"), result.ratio(row, "redis-lua")) for row in rows]
    shown = [f"`{guard}` {none:.2f} ({lua:.2f})" for guard, none, lua in ratios if none and lua]
    if shown:
        case = rows[0].case
        yield (
            f"- What a guard costs: {case.buyers} buyers for {case.stock} pieces take, as a multiple of `none` (and of "
            f"`redis-lua`), {', '.join(shown)}."
        )


def _limit(result: BenchResult) -> Iterator[str]:
    """What the mutex comes up against first."""
    for row in result.part("rush"):
        if row.case.guard == "etcd" and result.bounds:
            clicks, commits = by_cpus(result, row), result.bounds["commits"]
            yield (
                f"- What bounds `etcd` is {'the processor' if clicks < commits else 'etcd itself'}: a click costs "
                f"{sum(row.cpu_ms.values()):.2f} ms of CPU time, {row.cpu_ms['instances']:.2f} of them in the "
                f"instances, which allows {clicks:.0f} clicks/s, and etcd commits {commits:.0f} times/s one after the "
                f"other; {row.per_s:.0f} clicks/s are reached."
            )


def _short_cut(result: BenchResult) -> Iterator[str]:
    """What it is worth to say "sold out" without the lock."""
    rows = {row.case.guard: row for row in result.part("crowd")}
    if not {"etcd", "etcd-unfenced"} <= rows.keys():
        return
    etcd, unfenced = rows["etcd"], rows["etcd-unfenced"]
    spared = 1 - etcd.etcd_calls / unfenced.etcd_calls  # every click under the other guard is a turn
    yield (
        f"- Why `etcd-unfenced` takes {unfenced.wall_s / etcd.wall_s:.1f} times as long as `etcd` when "
        f"{etcd.case.buyers:,} come: it has no short cut when all is sold, so every buyer takes the lock. `etcd` asks "
        f"Redis alone once it has seen under the lock that nothing is left: {100 * spared:.0f} % of its buyers are "
        f"answered without the lock."
    )


def _machine(result: BenchResult) -> str:
    about = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    machine = result.machine
    return f"Measured {result.started} on {machine['cpus']} CPUs ({machine['system']} {machine['machine']}); {about}."


def _buyers(result: BenchResult) -> str:
    """Why the buyers are not Locust's."""
    clicks = [row.cpu_ms["buyers"] for row in result.part("rush")]
    if not clicks or not result.bounds:
        return ""
    return (
        f"The buyers are not Locust's. One click costs Locust {result.bounds['locust_ms']:.2f} ms of CPU time, in one "
        f"thread, and the buyers here {statistics.median(clicks):.2f} ms: where all share the same CPUs, Locust would "
        "hide what is compared. They click as in the rush: all connect before, then all click at once, each once."
    )


def _section(title: str, grid: Grid) -> str:
    return f"## {title}\n\n{grid.about}\n\n{_table(grid.headings, grid.rows)}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _limits(result: BenchResult) -> str:
    grid = limits_grid(result)
    return _section(grid.name, grid) if grid else ""


def _aims(result: BenchResult) -> str:
    lines = [f"- {aim}" for aim in aims(result)]
    return "## Aims\n\n" + "\n".join(lines) if lines else ""


def _memory(result: BenchResult) -> str:
    rows = [[part, *(f"{mib:.0f}" for mib in peaks.values())] for part, peaks in result.peak_mib.items()]
    return f"## Peak memory, MiB\n\n{_table(['part', 'one instance', 'etcd', 'Redis'], rows)}" if rows else ""
