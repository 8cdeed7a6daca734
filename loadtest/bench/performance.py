"""docs/performance.md from the JSON file of a run of `make bench`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from loadtest.bench.result import Result, Row
from loadtest.bench.tables import Grid, grids

HOW = """\
## How it was measured

Written by `python -m loadtest performance FILE...` from what `make bench` has measured; do not edit it by hand.

In each part all guards are measured in one run, on one machine that also runs etcd, Redis, the instances and the
buyers. Rounds are interleaved (every guard once, then every guard again), so that a disturbance hits all; the first
round warms up and is not counted. Wall time is from the first click to the last answer, shown as the median with the
fastest and the slowest round. RPCs, events and trips are those that etcd and Redis have counted themselves. All of
them, and CPU time, are per click."""

BOUNDED_BY = {
    "none": ("http", "HTTP alone"),
    "thread": ("http", "HTTP alone"),
    "etcd": ("cpu", "the CPUs: what a click costs in instances, etcd, Redis and buyers"),
    "etcd-unfenced": ("cpu", "the CPUs: what a click costs in instances, etcd, Redis and buyers"),
    "etcd-cohort": ("pairs", "two trips to Redis after each other, for each purchase"),
    "etcd-batch": ("http", "HTTP alone"),
    "redis-lock": (None, "sleep: each who waits looks at the lock every 0.1 s"),
    "redis-watch": ("pairs", "two trips to Redis that nobody comes in between of"),
    "redis-lua": ("http", "HTTP alone"),
}
TARGETS = (
    ("rush", "etcd-batch", "none", 1.0),
    ("rush", "etcd-cohort", "none", 1.25),
    ("rush", "etcd", "none", 3.0),
    ("crowd", "etcd-batch", "redis-lua", 1.1),
)


def performance(result: Result) -> str:
    """The whole document."""
    sections = [
        _machine(result),
        _buyers(result),
        *map(_grid, grids(result)),
        _bounds(result),
        _targets(result),
        _memory(result),
    ]
    return "\n\n".join(["# Performance", *filter(None, [_summary(result), HOW, *sections])]) + "\n"


def _summary(result: Result) -> str:
    """What the tables come to, for those who read no further."""
    lines = [*_costs(result), *_limit(result), *_short_cut(result)]
    return "## In short\n\n" + "\n".join(lines) if lines else ""


def _costs(result: Result) -> Iterator[str]:
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


def _limit(result: Result) -> Iterator[str]:
    """What the mutex comes up against first."""
    for row in result.part("rush"):
        if row.case.guard == "etcd" and result.bounds:
            clicks, commits = _bound(result, row, "cpu"), result.bounds["commits"]
            yield (
                f"- What bounds `etcd` is {'the processor' if clicks < commits else 'etcd itself'}: a click costs "
                f"{sum(row.cpu_ms.values()):.2f} ms of CPU time, {row.cpu_ms['instances']:.2f} of them in the "
                f"instances, which allows {clicks:.0f} clicks/s, and etcd commits {commits:.0f} times/s one after the "
                f"other; {row.per_s:.0f} clicks/s are reached."
            )


def _short_cut(result: Result) -> Iterator[str]:
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


def _machine(result: Result) -> str:
    about = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    machine = result.machine
    return f"Measured {result.started} on {machine['cpus']} CPUs ({machine['system']} {machine['machine']}); {about}."


def _buyers(result: Result) -> str:
    """Why the buyers are not Locust's."""
    clicks = [row.cpu_ms["buyers"] for row in result.part("rush")]
    if not clicks or not result.bounds:
        return ""
    return (
        f"The buyers are not Locust's. One click costs Locust {result.bounds['locust_ms']:.2f} ms of CPU time, in one "
        f"thread, and the buyers here {statistics.median(clicks):.2f} ms: where all share the same CPUs, Locust would "
        "hide what is compared. They click as in the rush: all connect before, then all click at once, each once."
    )


def _grid(grid: Grid) -> str:
    return f"## {grid.name.capitalize()}\n\n{grid.about}\n\n{_table(grid.headings, grid.rows)}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bounds(result: Result) -> str:
    """What each guard comes up against, with the figure next to it."""
    rows = [[row.case.guard, _rate(row), *_bound_cells(result, row)] for row in result.part("rush")]
    if not rows or not result.bounds:
        return ""
    about = (
        f"Measured in the same run: HTTP alone (a burst of `GET /livez`) {result.bounds['http']:.0f} answers/s; etcd "
        f"{result.bounds['commits']:.0f} commits/s one after the other; Redis {result.bounds['trips']:.0f} trips/s one "
        "after the other. What HTTP leaves is shared with everything else on the machine."
    )
    headings = ["guard", "clicks/s", "what bounds it", "bound/s", "reached"]
    return f"## What bounds each guard\n\n{about}\n\n{_table(headings, rows)}"


def _bound_cells(result: Result, row: Row) -> list[str]:
    kind, words = BOUNDED_BY[row.case.guard]
    if kind is None:
        return [words, "-", "-"]
    per_s = _bound(result, row, kind)
    return [words, f"{per_s:.0f}", f"{100 * row.per_s / per_s:.0f} %"]


def _rate(row: Row) -> str:
    return f"{row.per_s:.0f}"


def _bound(result: Result, row: Row, kind: str) -> float:
    """Clicks per second that the bound allows; of those who are told without a lock, none is counted against it."""
    sold = max(row.outcomes.get("sold", 0) / sum(row.outcomes.values()), 0.01)
    if kind == "http":
        return result.bounds["http"]
    if kind == "cpu":
        return 1000 * int(result.machine["cpus"]) / sum(row.cpu_ms.values())
    return result.bounds["trips"] / 2 / sold


def _targets(result: Result) -> str:
    lines = list(_judged(result))
    return "## Aims\n\n" + "\n".join(lines) if lines else ""


def _judged(result: Result) -> Iterator[str]:
    rows = {(row.case.part, row.case.guard): row for row in result.rows if row.case.part in ("rush", "crowd")}
    for part, guard, to, most in TARGETS:
        row = rows.get((part, guard))
        ratio = result.ratio(row, to) if row else None
        if ratio is not None:
            judged = "reached" if ratio <= most else "missed"
            yield f"- {part}: `{guard}` at most {most:g} x `{to}`: {ratio:.2f} x, {judged}."
    slow, fast = rows.get(("rush", "redis-lock")), rows.get(("rush", "etcd-cohort"))
    if slow and fast:
        yield f"- rush: `redis-lock` at least 10 x as long as `etcd-cohort`: {slow.wall_s / fast.wall_s:.1f} x."
    yield from _growth(result)


def _growth(result: Result) -> Iterator[str]:
    rows = {row.case.items: row for row in result.part("items") if row.case.guard == "etcd"}
    if 1 in rows and 20 in rows:
        most = _bound(result, rows[20], "cpu") / rows[1].per_s
        yield (
            f"- items: `etcd` with 20 items at least 3 x the throughput of one: {rows[1].wall_s / rows[20].wall_s:.1f} "
            f"x. The CPUs allow {most:.1f} x: one item keeps them busy to "
            f"{100 * rows[1].per_s / _bound(result, rows[1], 'cpu'):.0f} %, twenty to "
            f"{100 * rows[20].per_s / _bound(result, rows[20], 'cpu'):.0f} %."
        )


def _memory(result: Result) -> str:
    rows = [[part, *(f"{mib:.0f}" for mib in peaks.values())] for part, peaks in result.peak_mib.items()]
    return f"## Peak memory, MiB\n\n{_table(['part', 'one instance', 'etcd', 'Redis'], rows)}" if rows else ""
