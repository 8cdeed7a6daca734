"""`demo`: start everything, rush under every guard, compare, stop everything."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import click
from rich.console import Console

from loadtest.cli.compare import guards_to_compare, rush_options
from loadtest.cli.locust_process import run_rush
from loadtest.cli.options import no_pin
from loadtest.language import text_in
from loadtest.report.build import make_report
from loadtest.results.comparison import BASELINE
from loadtest.results.folders import report_under_way
from loadtest.stack.process import scratch_directory
from loadtest.stack.stack import Stack, usage_hints
from loadtest.terminal import console

_POLL_S = 0.1


@click.command()
@rush_options
@no_pin
@click.option("--keep", is_flag=True, help="Then keep it all running, with board and Locust, until Ctrl-C.")
def demo(**options: Any) -> None:
    """Start a sale, rush under several guards, compare, and stop.

    Exits with 0 only if every guard kept its promise and the sale without a lock really oversold.
    """
    _demo(**options)


def _demo(*, keep: bool, guards: Sequence[str], every: bool, language: str, **options: Any) -> NoReturn:
    screen, say = console(), partial(text_in, language)
    if BASELINE not in guards:
        guards = [BASELINE, *guards]
    with report_under_way() as report, scratch_directory() as directory:
        make = Stack.interactive if keep else Stack  # which is not durable: the disk is not compared
        stack = make(directory, ports="free")
        names = ", ".join(process.name for process in stack.processes)
        try:
            with screen.status(say("demo.starting", names=names)):
                stack.start()
            screen.print(say("demo.ready", names=names))
            guards = guards_to_compare(stack.urls, guards, every)
            options |= {"env": stack.client_environment, "language": language}
            comparison = run_rush(report, hosts=stack.urls, guards=guards, **options)
            make_report(report, screen, language)
            if keep:
                _keep(stack, screen, language)
        except BaseException:
            for process in stack.processes:  # purchases under way are not waited for
                process.kill()
            raise
        with screen.status(say("demo.stopping")):
            stack.stop()
    sys.exit(comparison.exit_code or (0 if comparison.baseline_oversold else 1))


def _keep(stack: Stack, screen: Console, language: str) -> None:
    screen.print("\n" + text_in(language, "demo.open"))
    for name, place in usage_hints(stack).items():
        screen.print(f"{name}: {place}", markup=False, soft_wrap=True)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(_POLL_S)  # one long wait would miss a signal that comes just before it
