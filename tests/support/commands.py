"""Commands of `python -m loadtest`, run as their users run them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.support.rushing import REPOSITORY
from tests.support.waiting import has_ended, wait_until

LOADTEST = [sys.executable, "-m", "loadtest"]


def finished(
    directory: Path, *words: str, env: Mapping[str, str] = os.environ, largest_file: str = "unlimited"
) -> subprocess.CompletedProcess[str]:
    """A command that has ended; `directory` gets its reports, no file may be larger than so many KiB."""
    return subprocess.run(
        ["bash", "-c", f'ulimit -f {largest_file} && exec "$@"', "bash", *LOADTEST, *words],
        cwd=directory,
        env={**env, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=200,
    )


class Command:
    """A command under way.

    Attributes:
        printed: what it has printed so far, as far as it was read; errors included.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.printed = ""

    def read_until(self, text: str) -> None:
        """Read on until it has printed `text`, also within a line."""
        assert self.process.stdout is not None
        while not self.printed.endswith(text):
            piece = self.process.stdout.read(1)
            assert piece, f"it ended before {text!r}: {self.printed}"
            self.printed += piece

    def children(self) -> list[psutil.Process]:
        """The processes that it has started, and those that these have started."""
        children: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return children

    def end(self, number: signal.Signals, *, timeout: float = 100.0) -> int:
        """Send a signal, an interrupt to all as a terminal does; read the rest, and return the exit code."""
        if number == signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        self.printed += self.process.communicate(timeout=timeout)[0]
        return self.process.returncode


@contextmanager
def running(directory: Path, *words: str, until: str) -> Iterator[Command]:
    """A command that has printed `until`; killed at the end if it still runs. `directory` gets its reports."""
    with subprocess.Popen(
        [*LOADTEST, *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            command = Command(process)
            command.read_until(until)
            yield command
        finally:
            process.kill()


@contextmanager
def leaving_nothing(directory: Path, *words: str, until: str) -> Iterator[Command]:
    """A command that has printed `until`; none of its processes and directories is left at the end."""
    with running(directory, *words, until=until) as command:
        wait_until(lambda: directories_of(command.children()), timeout=30)
        children = command.children()
        directories = directories_of(children)
        yield command
    wait_until(lambda: all(map(has_ended, children)), timeout=30)
    wait_until(lambda: not any(directory.exists() for directory in directories), timeout=30)
    assert not any(map(users_of, directories))


def directories_of(processes: list[psutil.Process]) -> set[Path]:
    """The scratch directories that these processes were told to use."""
    words = []
    for process in processes:
        with suppress(psutil.Error):  # it has ended just now
            words += process.cmdline()
    return {Path(name) for name in re.findall(r"(/\S*?stock-flash-sale-\w+)/", " ".join(words))}


def users_of(directory: Path) -> list[psutil.Process]:
    """The processes that were told of this directory, on the command line or in the environment, the last one too."""
    return [process for process in psutil.process_iter() if str(directory) in _told(process)]


def _told(process: psutil.Process) -> str:
    try:
        return " ".join([*process.cmdline(), *process.environ().values()])
    except psutil.Error:  # it has ended, or belongs to another user
        return ""
