"""`bench`, `bench-lock` and `performance`: guards and locks side by side, in one run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from itertools import product
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from app.guards import guards as known_guards
from labs.bench.locks import sessions
from labs.bench.locks.bench import CANDIDATES, OF_GO, PYTHON, LockResult, TurnsMissing
from labs.bench.locks.bench import measure as measure_lock
from labs.bench.locks.bench import table as lock_table
from labs.bench.locks.go import GoMissing, compiled
from labs.bench.meters import measure_handover_ms
from labs.bench.result import BenchResult, Case, MeasuredRush, Row
from labs.bench.runner import STACK_SETTINGS, BareApp, Bench
from labs.bench.suite import PARTS, Part
from labs.bench.tables import ResultTable, all_tables, fill_blocks, full_name
from loadtest.cli.options import SECONDS
from loadtest.results.folders import point_latest, report_under_way
from loadtest.stack.process import scratch_directory
from loadtest.stack.servers import Etcd, Redis
from loadtest.stack.stack import Stack

RESULT = "bench.json"
DOCUMENTS = [Path(__file__).with_name(name) for name in ("performance.md", "ceilings.md")]
_NARROWEST = 150
_LOCKS = (*CANDIDATES, *sessions.CANDIDATES)
_OF_GO = (*OF_GO, sessions.GO)
_KEPT = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("bench")
@click.option("--part", "names", multiple=True, type=click.Choice(tuple(PARTS)), help="Repeatable; default: all.")
@click.option(
    "--guard", "guards", multiple=True, type=click.Choice(tuple(known_guards())), help="Repeatable; default: all."
)
@click.option("--rounds", type=click.IntRange(1, 50), help="Of each case; default: what its part needs.")
@click.option("--show", type=_KEPT, help="Measure nothing: print this result again.")
def bench(names: tuple[str, ...], guards: tuple[str, ...], rounds: int | None, show: Path | None) -> None:
    """Measure guards against each other. Takes less than twenty minutes; --part rush --rounds 3 takes one."""
    console = wide_console()
    if show:
        print_tables(all_tables(BenchResult.read(show)), console)
        return
    chosen = [PARTS[name](guards or tuple(known_guards())) for name in names or PARTS]
    result = BenchResult(datetime.now(timezone.utc).isoformat(timespec="seconds"), {})
    with report_under_way() as report:
        file = report / RESULT
        for part in chosen:
            measure_part(part if rounds is None else replace(part, rounds=rounds), result, console)
            result.write(file)
            point_latest(report)
    print_tables(all_tables(result), console)
    console.print(f"written to {file}", soft_wrap=True)


def measure_part(part: Part, result: BenchResult, console: Console) -> None:
    """Run one part on its own stack, and add its rows to the result."""
    runs: dict[Case, list[MeasuredRush]] = {case: [] for case in part.cases}
    instances, env = max(case.instances for case in part.cases), dict(STACK_SETTINGS)
    if is_click := part.name == "click":
        del env["FLASHSALE_SECTION_LOG"]  # the stack's
    with (
        scratch_directory() as directory,
        Stack(directory, ports="free", instances=instances, env=env, board=is_click) as stack,
        BareApp(stack.instances[0]) if is_click else nullcontext() as bare,
        Bench(stack, bare=bare) as bench,
    ):
        result.versions = bench.sale.versions()
        with console.status(f"{part.name}: warming up") as status:
            for number, case in part.schedule():
                status.update(f"{part.name}, round {number} of {part.rounds}: {full_name(case)}")
                run = bench.run(case)
                if number:
                    runs[case].append(run)
            if part.name == "rush":
                status.update("hand-overs of the lock")
                result.handover_ms = round(measure_handover_ms(stack.etcd), 3)
    result.rows += [Row.of(case, done) for case, done in runs.items()]
    for row in result.rows[-len(runs) :]:
        console.print(f"[dim]{part.name:<10}[/] {full_name(row.case)}: {row.wall_s:.3f} s")


def wide_console() -> Console:
    """A console with room for all columns of a table if the output goes to a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_NARROWEST)


def print_tables(tables: Iterable[ResultTable], console: Console) -> None:
    """Print each with its name."""
    for table in tables:
        shown = Table(title=f"{table.name}: {table.about}", title_justify="left")
        for heading in table.headings:
            is_text = heading in ("guard", "setting", "runs on", "verdict", "lock", "bottleneck")
            shown.add_column(heading, justify="left" if is_text else "right")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)


@click.command("performance")
@click.argument("file", type=_KEPT)
def write_performance(file: Path) -> None:
    """Write the tables of a result into the bench lab's pages."""
    result = BenchResult.read(file)
    filled = {document: fill_blocks(document.read_text(encoding="utf-8"), result) for document in DOCUMENTS}
    for document, text in filled.items():
        document.write_text(text, encoding="utf-8")
        click.echo(f"written to {document}")


@click.command("bench-lock")
@click.option("--waiters", multiple=True, type=click.IntRange(2), default=(50, 500, 2000), show_default=True)
@click.option(
    "--sessions", "counts", multiple=True, type=click.IntRange(4), default=(4, 40, 160, 400), show_default=True
)
@click.option("--candidate", "candidates", multiple=True, type=click.Choice(_LOCKS), default=_LOCKS)
@click.option("--seconds", default=4.0, type=SECONDS, show_default=True, help="To count, for each line.")
def bench_lock(waiters: tuple[int, ...], counts: tuple[int, ...], candidates: tuple[str, ...], seconds: float) -> None:
    """Measure the locks: hand-overs per second, bursts, RPCs, CPU, many sessions. Takes about five minutes."""
    console = wide_console()
    results: list[LockResult] = []
    hand_overs: list[sessions.HandOverResult] = []
    with scratch_directory() as directory, Etcd(directory) as etcd, Redis(directory) as redis:
        programs = _programs(candidates, directory, console)
        for count, candidate in product(waiters, [each for each in programs if each in CANDIDATES]):
            with _attempt(f"{candidate}, {count} waiters", console):
                results.append(measure_lock(candidate, count, etcd, redis, seconds, program=programs[candidate]))
        for count, candidate in product(counts, [each for each in programs if each in sessions.CANDIDATES]):
            with _attempt(f"{candidate}, {count} sessions", console):
                hand_overs.append(sessions.measure(candidate, count, etcd, program=programs[candidate]))
    print_tables([lock_table(results)] * bool(results) + [sessions.table(hand_overs)] * bool(hand_overs), console)


@contextmanager
def _attempt(what: str, console: Console) -> Iterator[None]:
    console.print(f"{what} ...", style="dim")
    try:
        yield
    except TurnsMissing as error:
        console.print(f"{what}: left out: {error}")


def _programs(candidates: Sequence[str], directory: Path, console: Console) -> dict[str, Sequence[str]]:
    """The program of each candidate's workers, without those that this machine cannot run."""
    programs: dict[str, Sequence[str]] = {candidate: PYTHON for candidate in candidates if candidate not in _OF_GO}
    if of_go := [candidate for candidate in candidates if candidate in _OF_GO]:
        try:
            programs |= dict.fromkeys(of_go, (str(compiled(directory)),))
        except GoMissing as error:
            console.print(f"{', '.join(of_go)}: skipped, for {error}", soft_wrap=True)
    return programs
