"""Whether processes stand still, as SIGSTOP makes them."""

from __future__ import annotations

import psutil

_STILL = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def all_stand_still(pid: int) -> bool:
    """Whether a process and all its children are stopped, or have ended."""
    try:
        first = psutil.Process(pid)
        return all(map(_stands_still, [first, *first.children(recursive=True)]))
    except psutil.NoSuchProcess:
        return True


def _stands_still(process: psutil.Process) -> bool:
    try:
        return process.status() in _STILL
    except psutil.NoSuchProcess:
        return True
