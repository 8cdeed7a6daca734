"""`demo`: start everything, rush under every guard, compare, stop everything."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from loadtest.cli.compare import rush_options
from loadtest.cli.options import redis_shards
from loadtest.report.build import draw
from loadtest.results.comparison import BASELINE
from loadtest.results.folders import report_under_way
from loadtest.rush.locust_process import run_rush
from loadtest.stack.process import scratch_directory
from loadtest.stack.stack import Stack
from loadtest.terminal.console import console


@click.command()
@rush_options
@redis_shards
def demo(redis_shards: int, guards: Sequence[str], **options: Any) -> None:
    """Start a sale, rush under every guard, compare, and stop.

    Exits with 0 only if every guard kept its promise and the sale without a lock really oversold.
    """
    screen = console()
    if BASELINE not in guards:
        guards = [BASELINE, *guards]
    with report_under_way() as report, scratch_directory() as directory:
        stack = Stack(directory, ports="free", redis_shards=redis_shards)  # not durable: the disk is not compared
        names = ", ".join(process.name for process in stack.processes)
        try:
            with screen.status(f"starting {names}"):
                stack.start()
            screen.print(f"Ready: {names}")
            comparison = run_rush(report, hosts=stack.urls, env=stack.client_environment, guards=guards, **options)
            draw(report, screen)
        except BaseException:
            for process in stack.processes:  # purchases under way are not waited for
                process.kill()
            raise
        with screen.status("stopping everything"):
            stack.stop()
    sys.exit(comparison.exit_code or (0 if comparison.baseline_oversold else 1))
