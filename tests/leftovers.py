"""Whether a command has left anything behind."""

from __future__ import annotations

import re
from pathlib import Path

import psutil

from tests.waiting import has_ended, wait_until


def directories_of(processes: list[psutil.Process]) -> set[Path]:
    """The scratch directories that these processes were told to use."""
    words = " ".join(word for process in processes for word in process.cmdline())
    return {Path(name) for name in re.findall(r"(/\S*?stock-flash-sale-\w+)/", words)}


def ports_of(processes: list[psutil.Process]) -> set[int]:
    """The ports on which these processes listen."""
    found = [each for process in processes for each in process.net_connections("tcp")]
    return {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}


def assert_gone(processes: list[psutil.Process], directories: set[Path]) -> None:
    """Neither a process nor a directory is left, of which there was at least one each."""
    assert processes
    assert directories
    wait_until(lambda: all(map(has_ended, processes)))
    wait_until(lambda: not any(directory.exists() for directory in directories))
