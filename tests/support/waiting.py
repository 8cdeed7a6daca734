"""Waiting for an event itself instead of sleeping a guess."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from subprocess import Popen

import psutil

from loadtest.stack.process import all_stand_still


def wait_until(happened: Callable[[], object], *, timeout: float = 30.0) -> None:
    """Return as soon as `happened()` is true; AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < deadline, f"did not happen within {timeout:g} s: {happened}"
        time.sleep(0.01)


def freeze(process: Popen[str]) -> None:
    """Stop it with SIGSTOP, and return when all its threads stand still."""
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: all_stand_still(process.pid))


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no more; an orphan that is not yet reaped by the system has ended too."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
