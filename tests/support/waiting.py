"""Waiting for an event itself instead of sleeping a guess; and what tests have threads and calls do."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from subprocess import Popen
from typing import Any, NoReturn, TypeVar

import psutil
import pytest

from loadtest.stack.process import all_stand_still

T = TypeVar("T")
Patch = pytest.MonkeyPatch


def wait_until(happened: Callable[[], object], *, timeout: float = 30.0) -> None:
    """Return as soon as `happened()` is true; AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < deadline, f"did not happen within {timeout:g} s: {happened}"
        time.sleep(0.01)


def in_thread(call: Callable[..., T], *args: object, **options: object) -> Future[T]:
    """Call it in its own thread; unlike a pool, it does not wait for a thread that a failing test left."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call(*args, **options))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def assert_goes_on(call: Future[T], seconds: float) -> None:
    """It has no outcome within so many seconds."""
    assert not wait([call], timeout=seconds).done


def assert_raises(
    error: type[BaseException] | tuple[type[BaseException], ...],
    call: Callable[..., object],
    *args: Any,
    match: str | None = None,
    **options: Any,
) -> None:
    """Calling it with these arguments raises this error, with a message that has this pattern."""
    with pytest.raises(error, match=match):
        call(*args, **options)


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


def in_turn(*calls: Callable[[], object]) -> Callable[..., Any]:
    """A call that makes all of these, whatever it is called with, and returns what the last one does."""
    return lambda *_, **__: [call() for call in calls][-1]


def out_of_threads(*_: object, **__: object) -> NoReturn:
    """What gRPC does to a call on a machine that has no thread left."""
    raise RuntimeError("can't start new thread")
