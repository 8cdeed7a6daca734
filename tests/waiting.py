"""Waiting for an event itself instead of sleeping a guess."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def wait_until(happened: Callable[[], object], *, timeout: float = 10.0) -> None:
    """Return as soon as `happened()` is true; AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < deadline, f"did not happen within {timeout:g} s: {happened}"
        time.sleep(0.01)


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no more; an orphan that is not yet reaped by the system has ended too."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
