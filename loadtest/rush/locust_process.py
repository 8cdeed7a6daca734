"""One comparison in its own Locust process."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from loadtest import REPOSITORY
from loadtest.results.comparison import NO_RESULT, Comparison
from loadtest.results.folders import COMPARISON, point_latest
from loadtest.stack import guardian

_STOP_TIMEOUT_S = 10.0


class NoComparison(click.ClickException):
    """The rush was stopped or could not begin; Locust printed why."""

    exit_code = NO_RESULT


@dataclass(frozen=True)
class RushOptions:
    """The options of a comparison; `guards` in the order in which they run."""

    guards: Sequence[str]
    buyers: int
    stock: int
    hold_ms: int
    opens_in: int = 0


def run_rush(
    options: RushOptions, report: Path, *, hosts: Sequence[str], env: Mapping[str, str] | None = None
) -> Comparison:
    """Let Locust run the comparison, show it, and keep it in the directory `report`.

    Args:
        options: what to compare.
        report: the directory.
        hosts: base URLs of the instances.
        env: FLASHSALE_* settings with the addresses of Redis and etcd, over those of the environment.

    Raises:
        NoComparison: the comparison is not complete.
        BrokenPipeError: nor is standard output open.
    """
    with _running(_locust(options, hosts, report), env or {}, log=report / "locust.log") as locust:
        code = locust.wait()
    try:
        comparison = Comparison.read(report / COMPARISON)
    except (OSError, ValueError):
        if _is_closed(sys.stdout):
            raise BrokenPipeError(errno.EPIPE, "standard output is closed") from None
        raise NoComparison(f"Locust ended with code {code} and no comparison; see {report}/locust.log") from None
    point_latest(report)
    return comparison


def _is_closed(output: TextIO) -> bool:
    """Whether the other end of a pipe is closed."""
    look = select.poll()
    look.register(output, 0)
    return any(seen & select.POLLERR for _, seen in look.poll(0))


def _locust(options: RushOptions, hosts: Sequence[str], report: Path) -> list[str]:
    words = {
        "--locustfile": REPOSITORY / "loadtest/locustfile.py",
        "--host": ",".join(hosts),
        "--users": options.buyers,
        "--spawn-rate": options.buyers,
        "--stock": options.stock,
        "--hold-ms": options.hold_ms,
        "--opens-in": options.opens_in,
        "--report": (report / COMPARISON).resolve(),
    }
    flat = [str(word) for pair in words.items() for word in pair]
    return [sys.executable, "-m", "locust", "--headless", *flat, "--guards", *options.guards]


@contextlib.contextmanager
def _running(command: list[str], env: Mapping[str, str], *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is stopped at the end, and does not outlive this one."""
    with ThreadPoolExecutor(1) as thread:  # for the reason that `Process.launch` has
        process = thread.submit(_spawn, command, env, log).result()
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
        process.kill()
        process.wait()
        guardian.forget("group", process.pid)


def _spawn(command: list[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    # Its own session, so that the guardian can end it; no input, because Locust would listen to the keyboard.
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    guardian.watch("group", process.pid)
    return process
