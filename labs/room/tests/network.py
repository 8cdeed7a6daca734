"""A network of the test's own, with an address that is not loopback; what runs in it reaches no other machine."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import pytest

from loadtest.stack.process import Resource

T = TypeVar("T")
ADDRESS, OTHER_ADDRESS = "192.0.2.10", "192.0.2.66"  # of a range for documentation; clients come from either
CLONE_NEWNET = 0x40000000


class Network:
    """One network namespace, in which a thread lives."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread

    def run(self, call: Callable[..., T], *args: object, **options: object) -> T:
        """Call it inside: the threads and processes that it starts are inside, too."""
        return self._thread.submit(call, *args, **options).result()

    @contextmanager
    def running(self, resource: Resource) -> Iterator[None]:
        """Start it inside, and stop it at the end."""
        try:
            self.run(resource.start)
            yield
        finally:
            self.run(resource.stop)


@contextmanager
def own_network() -> Iterator[Network]:
    """A network namespace with `ADDRESS`; it ends with what runs in it. Skips the test if none can be made."""
    with ThreadPoolExecutor(1) as thread:
        if reason := thread.submit(_enter).result():
            pytest.skip(f"a network namespace needs Linux, root and ip: {reason}")
        yield Network(thread)


def _enter() -> str:
    """Move this thread into a new namespace; why that failed, or nothing."""
    try:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            return os.strerror(ctypes.get_errno())
        for words in ("link set lo up", *(f"addr add {each}/24 dev lo" for each in (ADDRESS, OTHER_ADDRESS))):
            subprocess.run(["ip", *words.split()], check=True, capture_output=True)
    except (AttributeError, OSError, subprocess.CalledProcessError) as error:
        return str(error)
    return ""
