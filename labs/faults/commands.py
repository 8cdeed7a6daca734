"""`faults`: the sale under faults, each with an expected and an observed result."""

from __future__ import annotations

import secrets
import sys
import textwrap
import time
from collections.abc import Sequence

import click
from rich.console import Console

from app.guards import guards as known_guards
from labs.faults.audit_command import audit_records
from labs.faults.runner import BY_NAME, ScenarioRunner
from labs.faults.screen import table
from loadtest.cli.options import SECONDS, redis_shards
from loadtest.report.build import make_report
from loadtest.results.folders import point_latest, report_under_way
from loadtest.results.text import pluralize
from loadtest.terminal import console

__all__ = ["audit_records", "faults"]

# Those with a lock that can be lost.
GUARDS = tuple(name for name, guard in known_guards().items() if guard.loses_lock)
DEFAULT_GUARDS = ("etcd", "etcd-unfenced", "redis-lock")
_GUARD_HELP = f"Repeatable; default: {', '.join(DEFAULT_GUARDS)}."
# All scenarios about one thing, by the first word of their names.
GROUPS = {group: [name for name in BY_NAME if name.startswith(group)] for group in ("opening", "transfer", "failover")}


def _listed() -> str:
    """The scenarios for --help; click keeps the lines of such a paragraph."""
    lines = (
        textwrap.fill(each.what, 76, initial_indent=f"  {name:<15}", subsequent_indent=" " * 17)
        for name, each in BY_NAME.items()
    )
    return "\b\nScenarios:\n" + "\n".join([*lines, f"  {', '.join(GROUPS)}: all that begin with this word"])


@click.command(epilog=_listed())
@click.argument("scenarios", nargs=-1, type=click.Choice([*BY_NAME, *GROUPS]), metavar="[SCENARIO]...")
@click.option("--guard", "guards", multiple=True, type=click.Choice(GUARDS), help=_GUARD_HELP)
@click.option("--seconds", default=5.0, type=SECONDS, show_default=True, help="Time for `random` and `random-opening`.")
@click.option("--seed", type=int, help="Have them do again what they did with this seed.")
@redis_shards
def faults(
    scenarios: Sequence[str], guards: Sequence[str], seconds: float, seed: int | None, redis_shards: int
) -> None:
    """Break what the sale relies on, and judge what was sold.

    Without SCENARIO all are played. Exits with 0 if each came out as expected: a guard without fencing has to break
    where a holder outlives its lease.
    """
    scenarios = [name for each in scenarios for name in GROUPS.get(each, [each])]
    scenarios = scenarios or list(BY_NAME)
    guards = guards or DEFAULT_GUARDS
    if not any(BY_NAME[name].suitable(guards) for name in scenarios):
        raise click.UsageError(f"{', '.join(scenarios)}: not for {', '.join(guards)}")
    seed = secrets.randbelow(10**6) if seed is None else seed
    screen = console()
    with report_under_way() as report:
        runner = ScenarioRunner(screen, report, seconds, seed, redis_shards)
        _play(runner, scenarios, guards, screen)
        make_report(report, screen)
        point_latest(report)
    sys.exit(0 if all(result.as_expected for result in runner.results) else 1)


def _play(runner: ScenarioRunner, scenarios: Sequence[str], guards: Sequence[str], screen: Console) -> None:
    """Play all, and show the results, also of those that were played before an interrupt."""
    began = time.monotonic()
    try:
        for name in scenarios:
            runner.play(BY_NAME[name], guards)
    finally:
        if runner.results:
            screen.print()
            screen.print(table(runner.results, plain=not screen.is_terminal))
    unexpected = sum(not result.as_expected for result in runner.results)
    verdict = f"{unexpected} NOT as expected" if unexpected else "all as expected"
    screen.print(f"{pluralize(len(runner.results), 'run')} in {time.monotonic() - began:.0f} s: {verdict}.")
