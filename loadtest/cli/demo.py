"""`demo`: start everything, rush under every guard, compare, stop everything."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from loadtest.cli.compare import rush_options
from loadtest.cli.options import redis_shards
from loadtest.report.build import draw
from loadtest.results.comparison import BASELINE
from loadtest.results.folders import report_under_way
from loadtest.rush.locust_process import RushOptions, run_rush
from loadtest.stack.ports import is_occupied
from loadtest.stack.process import Process, scratch_directory
from loadtest.stack.stack import Stack, usage_hints
from loadtest.terminal.console import console

_POLL_S = 0.1


@click.command()
@rush_options
@redis_shards
@click.option("--keep", is_flag=True, help="Then keep it all running, with board and Locust, until Ctrl-C.")
def demo(redis_shards: int, keep: bool, **options: Any) -> None:
    """Start a sale, rush under every guard, compare, and stop.

    Exits with 0 only if every guard kept its promise and the sale without a lock really oversold.
    """
    screen, rush = console(), RushOptions(**options)
    if BASELINE not in rush.guards:
        rush = replace(rush, guards=[BASELINE, *rush.guards])
    with report_under_way() as report, scratch_directory() as directory:
        stack = _stack(directory, redis_shards, keep=keep)
        try:
            _start(stack, screen)
            comparison = run_rush(rush, report, hosts=stack.urls, env=stack.client_environment)
            draw(report, screen)
            if keep:
                _keep(stack, screen)
        except BaseException:
            for process in stack.processes:  # purchases under way are not waited for
                process.kill()
            raise
        with screen.status("stopping everything"):
            stack.stop()
    sys.exit(comparison.exit_code or (0 if comparison.baseline_oversold else 1))


def _stack(directory: Path, redis_shards: int, *, keep: bool) -> Stack:
    """A stack on free ports; one that is kept has the usual ports, if all of them are free."""
    if not keep:
        return Stack(directory, ports="free", redis_shards=redis_shards)  # not durable: the disk is not compared
    usual = Stack.on_stage(directory, redis_shards=redis_shards)
    occupied = any(is_occupied(process.port) for process in usual.processes)
    return Stack.on_stage(directory, ports="free", redis_shards=redis_shards) if occupied else usual


def _keep(stack: Stack, screen: Console) -> None:
    """Print the addresses, and wait for Ctrl-C."""
    screen.print("\nThe sale stays open. Ctrl-C stops everything.")
    for name, place in usage_hints(stack).items():
        screen.print(f"{name}: {place}", markup=False, soft_wrap=True)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(_POLL_S)  # one long wait would miss a signal that comes just before it


def _start(stack: Stack, screen: Console) -> None:
    names = [process.name for process in stack.processes]
    with screen.status(f"starting {', '.join(names)}") as status:

        def ready(process: Process) -> None:
            names.remove(process.name)
            status.update(f"starting {', '.join(names) or 'the buyers'}")

        stack.start(on_ready=ready)
    screen.print(f"Ready: {', '.join(process.name for process in stack.processes)}")
