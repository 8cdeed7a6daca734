"""`demo`: the whole story in one command: start everything, rush under every guard, compare, stop everything."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType

import click
from rich.console import Console

from loadtest.compare import RushOptions, run_rush, rush_options
from loadtest.comparison import BASELINE, GUARDS
from loadtest.process import Process, scratch_directory
from loadtest.report.command import draw
from loadtest.stack import Stack
from loadtest.terminal import console


@click.command()
@rush_options
def demo(guards: Sequence[str], buyers: int, stock: int, hold_ms: int) -> None:
    """Start the sale on free ports, run the rush under every guard, compare, and stop everything.

    Exits with 0 only if every guard kept its promise and the sale without a lock really oversold.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    screen = console()
    options = RushOptions(_with_baseline(guards or GUARDS), buyers, stock, hold_ms)
    with scratch_directory() as directory:
        stack = Stack(directory, ports="free")
        try:
            _start(stack, screen)
            env = {
                "FLASHSALE_REDIS_URL": stack.redis.url,
                "FLASHSALE_ETCD_ENDPOINTS": stack.etcd.endpoint,
                "FLASHSALE_EVIDENCE": str(stack.evidence),
            }
            comparison, report = run_rush(options, hosts=stack.urls, env=env)
        except BaseException:
            for process in stack.processes:  # nobody waits for purchases that are under way
                process.kill()
            raise
        with screen.status("stopping everything"):
            stack.stop()
    draw(report, screen)
    sys.exit(0 if comparison.kept and comparison.baseline_oversold else 1)


def _with_baseline(guards: Sequence[str]) -> Sequence[str]:
    return guards if BASELINE in guards else [BASELINE, *guards]


def _start(stack: Stack, screen: Console) -> None:
    names = [process.name for process in stack.processes]
    with screen.status(f"starting {', '.join(names)}") as status:

        def ready(process: Process) -> None:
            names.remove(process.name)
            status.update(f"starting {', '.join(names)}")

        stack.start(on_ready=ready)
    screen.print(f"Ready: {', '.join(process.name for process in stack.processes)}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
