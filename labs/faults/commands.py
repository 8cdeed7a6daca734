"""`faults`: the sale under faults, each with an expected and an observed result."""

from __future__ import annotations

import secrets
import sys
import textwrap
import time
from collections.abc import Sequence
from typing import Protocol

import click
from rich.console import Console

from app.contract.outcomes import Promise
from app.guards import DEFAULT
from app.guards import guards as all_guards
from labs.faults.audit_command import audit_records
from labs.faults.runner import ScenarioRunner
from labs.faults.scenarios import groups, own_sales, scenarios, summaries
from labs.faults.screen import results_table
from loadtest.cli.options import SECONDS, language, no_pin
from loadtest.language import Message
from loadtest.report.build import make_report
from loadtest.results.comparison import NO_RESULT
from loadtest.results.folders import point_latest, report_under_way
from loadtest.results.record import Record
from loadtest.shop_client.shops import SaleError
from loadtest.stack.process import ServerError
from loadtest.terminal import console

__all__ = ["audit_records", "faults"]

NOT_AS_EXPECTED = 1  # exit code
GUARDS = {name: guard for name, guard in all_guards().items() if guard.loses_lock}
# Exact without a lock: for scenarios that break more than locks.
LOCKLESS = [name for name, guard in all_guards().items() if name not in GUARDS and guard.promise is Promise.EXACT]
# One with a fence, and all without.
DEFAULT_GUARDS = [name for name, guard in GUARDS.items() if name == DEFAULT or guard.promise is not Promise.EXACT]


class Played(Protocol):
    """A sale that was held against what was expected of it."""

    @property
    def as_expected(self) -> bool | None:
        """`None` if there is no verdict."""


class NoResult(click.ClickException):
    """The stack cannot go on; the message is one line that says what to do."""

    exit_code = NO_RESULT


def _scenario_list() -> str:
    """The scenarios for --help; click keeps the lines of such a paragraph."""
    lines = (
        textwrap.fill(summary, 76, initial_indent=f"  {name:<17}", subsequent_indent=" " * 19)
        for name, summary in summaries().items()
    )
    return "\b\nScenarios:\n" + "\n".join([*lines, f"  {', '.join(groups())}: all that begin with this word"])


@click.command(epilog=_scenario_list())
@no_pin
@click.argument("names", nargs=-1, type=click.Choice([*summaries(), *groups()]), metavar="[SCENARIO]...")
@click.option(
    "--guard",
    "guards",
    multiple=True,
    type=click.Choice([*GUARDS, *LOCKLESS]),
    help=f"Repeatable; default: {', '.join(DEFAULT_GUARDS)}.",
)
@click.option("--seconds", default=5.0, type=SECONDS, show_default=True, help="Time for each `random...`.")
@click.option("--seed", type=int, help="Have them do again what they did with this seed.")
@language
def faults(names: Sequence[str], guards: Sequence[str], seconds: float, seed: int | None, language: str) -> None:
    """Break what the sale relies on, and judge what was sold.

    Without SCENARIO all are played. Exits with 0 if each came out as expected, with 1 if one did not, and with 2 if
    there is no verdict because this machine is too slow. A guard without fencing has to break if a holder outlives
    its lease.
    """
    names = [name for each in names for name in groups().get(each, [each])] or list(summaries())
    own = [(module, chosen) for module in own_sales() if (chosen := [name for name in names if name in module.FAULTS])]
    names = [name for name in names if name in scenarios()]
    if guards and not names:
        raise click.UsageError(f"{', '.join(name for _, each in own for name in each)}: not for guards; omit --guard")
    guards = guards or DEFAULT_GUARDS
    if names and not any(scenarios()[name].suitable(guards) for name in names):
        raise click.UsageError(f"{', '.join(names)}: not for {', '.join(guards)}")
    seed = secrets.randbelow(10**6) if seed is None else seed
    screen, results = console(), list[Played]()
    try:
        if names:
            results += _play_with_report(screen, seconds, seed, language, names, guards)
        for module, chosen in own:
            began = time.monotonic()
            played = module.play(chosen, screen, seed=seed, language=language)
            screen.print(conclusion(played, time.monotonic() - began).in_language(language))
            results += played
    except (SaleError, ServerError) as error:  # such as a server that was not ready in time
        raise NoResult(error.message) from error
    sys.exit(exit_code(results))


def _play_with_report(
    screen: Console, seconds: float, seed: int, language: str, names: Sequence[str], guards: Sequence[str]
) -> Sequence[Record]:
    """Play them, and show the results, also of those that were played before an interrupt."""
    with report_under_way() as report:
        runner, began = ScenarioRunner(screen, report, seconds, seed, language), time.monotonic()
        try:
            for name in names:
                runner.play(scenarios()[name], guards)
        finally:
            if runner.results:
                screen.print()
                screen.print(results_table(runner.results, plain=not screen.is_terminal, language=language))
        screen.print(conclusion(runner.results, time.monotonic() - began).in_language(language))
        make_report(report, screen, language)
        point_latest(report)
    return runner.results


def exit_code(results: Sequence[Played]) -> int:
    """0 if all are as expected, 1 if one is not, else 2: one has no verdict."""
    if any(result.as_expected is False for result in results):
        return NOT_AS_EXPECTED
    return NO_RESULT if any(result.as_expected is None for result in results) else 0


def conclusion(results: Sequence[Played], seconds: float) -> Message:
    """How many were not as expected, and how many have no verdict."""
    unexpected = Message.of("{n} NOT as expected", n=sum(result.as_expected is False for result in results))
    unknown = sum(result.as_expected is None for result in results)
    slow = Message.of("{n} without a verdict, because this machine is too slow", n=unknown)
    listed = unexpected if unexpected.values["n"] else slow if unknown else Message("all as expected")
    if listed is unexpected and unknown:
        listed = Message.of("{one}, {other}", one=unexpected, other=slow)
    runs = Message.of("{n} run|{n} runs", n=len(results))
    return Message.of("{runs} in {s} s: {listed}.", runs=runs, s=round(seconds), listed=listed)
