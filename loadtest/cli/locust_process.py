"""One comparison in its own Locust process."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from loadtest import REPOSITORY
from loadtest.results.comparison import NO_RESULT, Comparison
from loadtest.results.folders import COMPARISON, point_latest
from loadtest.results.json_files import KeptError
from loadtest.stack.process import ManagedProcess


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
    language: str,
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
        "--language": language,
        "--report": (report / COMPARISON).resolve(),
    }
    flat = [str(word) for pair in words.items() for word in pair]
    with LocustProcess(report, [*flat, "--guards", *guards], env) as locust:
        code = locust.wait()
    try:
        comparison = Comparison.read(report / COMPARISON)
    except KeptError:
        raise NoComparison(f"Locust ended with code {code} and no comparison; see {report}/locust.log") from None
    point_latest(report)
    return comparison


class LocustProcess(ManagedProcess):
    """Locust without its page; it prints the comparison itself."""

    prints = True

    def __init__(self, report: Path, words: Sequence[str], env: Mapping[str, str]) -> None:
        super().__init__("locust", report, port=0)
        self._words, self._env = words, env

    def command(self) -> list[str]:
        return [sys.executable, "-m", "locust", "--headless", *self._words]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, **self._env}

    def is_ready(self) -> bool:
        return True
