"""One comparison in its own Locust process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from loadtest import REPOSITORY
from loadtest.results.comparison import NO_RESULT, Comparison
from loadtest.results.folders import COMPARISON, point_latest
from loadtest.results.kept import KeptError
from loadtest.stack import guardian

_STOP_TIMEOUT_S = 10.0


class NoComparison(click.ClickException):
    """The rush was stopped or could not begin; Locust printed why."""

    exit_code = NO_RESULT


def run_rush(
    report: Path,
    *,
    hosts: Sequence[str],
    env: Mapping[str, str],
    guards: Sequence[str],
    buyers: int,
    stock: int,
    hold_ms: int,
    opens_in: int,
) -> Comparison:
    """Let Locust run the comparison, show it, and keep it in the directory `report`.

    The instances are at the base URLs `hosts`. `env` has FLASHSALE_* settings, such as the addresses of Redis and etcd,
    over those of the environment. The rest are the options of the commands. Raises NoComparison if it is not complete.
    """
    words = {
        "--locustfile": REPOSITORY / "loadtest/locustfile.py",
        "--host": ",".join(hosts),
        "--users": buyers,
        "--spawn-rate": buyers,
        "--stock": stock,
        "--hold-ms": hold_ms,
        "--opens-in": opens_in,
        "--report": (report / COMPARISON).resolve(),
    }
    flat = [str(word) for pair in words.items() for word in pair]
    command = [sys.executable, "-m", "locust", "--headless", *flat, "--guards", *guards]
    with _running(command, env, log=report / "locust.log") as locust:
        code = locust.wait()
    try:
        comparison = Comparison.read(report / COMPARISON)
    except KeptError:
        raise NoComparison(f"Locust ended with code {code} and no comparison; see {report}/locust.log") from None
    point_latest(report)
    return comparison


@contextlib.contextmanager
def _running(command: list[str], env: Mapping[str, str], *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is stopped at the end, and does not outlive this one."""
    with log.open("ab") as errors:
        # Its own session, so that the guardian can end it; no input, because Locust would listen to the keyboard.
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    guardian.watch("group", process.pid)
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
        process.kill()
        process.wait()
        guardian.forget("group", process.pid)
