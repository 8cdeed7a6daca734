"""The command `python -m lock`, in this process or in its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lock.__main__ import main
from tests.support.lock import WAIT_S

LOCK = [sys.executable, "-m", "lock"]

Start = Callable[..., "subprocess.Popen[Any]"]
Invoke = Callable[..., Result]


@pytest.fixture
def start(etcdctl_env: dict[str, str]) -> Iterator[Start]:
    """Starts `python -m lock` with these arguments; whatever still runs at the end is killed."""
    running: list[subprocess.Popen[Any]] = []

    def start(*args: str, text: bool = True, stdin: int | None = None) -> subprocess.Popen[Any]:
        command = [*LOCK, *args]
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running.append(subprocess.Popen(command, env=etcdctl_env, text=text, **pipes))  # type: ignore[call-overload]
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate(timeout=WAIT_S)


@pytest.fixture
def invoke(etcdctl_env: dict[str, str]) -> Invoke:
    """Runs a command that needs no process, in this one, with an input and changes to the environment."""
    return lambda *args, input="", **env: CliRunner().invoke(main, args, input=input, env=etcdctl_env | env)
