"""Whether a command has left anything behind."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from tests.support.waiting import has_ended, wait_until


def directories_of(processes: list[psutil.Process]) -> set[Path]:
    """The scratch directories that these processes were told to use."""
    words = " ".join(word for process in processes for word in process.cmdline())
    return {Path(name) for name in re.findall(r"(/\S*?stock-flash-sale-\w+)/", words)}


def users_of(directory: Path) -> list[psutil.Process]:
    """The processes that were told of this directory, on the command line or in the environment, the last one too."""
    return [process for process in psutil.process_iter() if str(directory) in _told(process)]


def _told(process: psutil.Process) -> str:
    try:
        return " ".join([*process.cmdline(), *process.environ().values()])
    except psutil.Error:  # it has ended, or belongs to another user
        return ""


def assert_gone(processes: list[psutil.Process], directories: set[Path]) -> None:
    """Neither a process nor a directory is left, of which there was at least one each."""
    assert processes
    assert directories
    wait_until(lambda: all(map(has_ended, processes)), timeout=30)
    wait_until(lambda: not any(directory.exists() for directory in directories), timeout=30)
