"""Keeps KeyboardInterrupt out of what it would break.

Python raises it in the main thread at any point, also between the taking of a lock and the ``with`` that would give it
back. gRPC is full of such points, and a channel whose lock is lost never answers again. So another thread, which no
signal interrupts, makes the main thread's calls of etcd, and starts the threads that have to be remembered.

The same threads do what ``__del__`` wants done: the garbage collector runs wherever memory is allocated, also inside
the locks that this would need, and inside those that starting a `threading.Thread` takes.
"""

from __future__ import annotations

import _thread
import contextlib
import math
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from lock.runtime.clock import now

P = ParamSpec("P")
T = TypeVar("T")

_HEARING_S = 1.0

_listed: dict[int, object] = getattr(threading, "_active", {})  # by `threading.enumerate`


def run_uninterrupted(call: Callable[[], T]) -> T:
    """What `call` returns or raises; a KeyboardInterrupt does not stop it."""
    if threading.get_ident() != threading.main_thread().ident or _runs_a_loop():
        return call()
    outcome: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()  # in C: nothing in it can be interrupted halfway
    try:
        _thread.start_new_thread(_run, (call, outcome))  # not a Thread, whose start() has such places, too
    except RuntimeError:  # the interpreter ends, and starts no threads any more
        return call()
    return outcome.get().result()


def uninterrupted(call: Callable[P, T]) -> Callable[P, T]:
    """A decorator: a KeyboardInterrupt does not stop what it decorates, once it has begun."""

    @wraps(call)
    def run(*args: P.args, **options: P.kwargs) -> T:
        return run_uninterrupted(partial(call, *args, **options))

    return run


class InterruptSafeEvent:
    """As `threading.Event`, for one waiting thread at a time: it waits in C, so that an interrupt breaks nothing."""

    def __init__(self) -> None:
        self._is_set = False
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._listener: Callable[[], object] | None = None

    def set(self) -> None:
        """Wake the waiting thread, now and from now on."""
        self._is_set = True
        self._wakeups.put(None)
        listener = self._listener
        if listener is not None:
            listener()

    def listen(self, listener: Callable[[], object] | None) -> None:
        """Have `listener` called instead of a thread woken, at once where it is set; perhaps more than once."""
        self._listener = listener
        if listener is not None and self._is_set:
            listener()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is set, for `timeout` seconds at most; whether it is.

        The main thread, which alone handles signals, wakes every second: the kernel may hand one to another thread.
        """
        until = math.inf if timeout is None else now() + timeout
        longest = _HEARING_S if threading.get_ident() == threading.main_thread().ident else threading.TIMEOUT_MAX
        while not self._is_set:
            with contextlib.suppress(queue.Empty):
                self._wakeups.get(timeout=max(min(until - now(), longest), 0.0))
            if now() >= until:
                break
        return self._is_set


def require_threads() -> None:
    """Raise RuntimeError where gevent has put greenlets in the place of threads: the first wait would stop them all."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        raise RuntimeError(
            "gevent has patched this process, and an etcd lock needs real threads: "
            "use it in a process without gevent.monkey (gunicorn: --worker-class gthread)"
        )


def run_detached(call: Callable[[], object]) -> None:
    """Have `call` done, for ``__del__``: returns at once and takes no lock. Not done where the interpreter ends."""
    with contextlib.suppress(RuntimeError):  # it starts no threads any more
        _thread.start_new_thread(_do, (call,))


def _runs_a_loop() -> bool:
    """Whether this thread runs an event loop: `asyncio.run` makes a cancellation of an interrupt (Python 3.11)."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _run(call: Callable[[], T], outcome: queue.SimpleQueue[Future[T]]) -> None:
    future: Future[T] = Future()
    try:
        future.set_result(_do(call))
    except BaseException as error:
        future.set_exception(error)
    outcome.put(future)


def _do(call: Callable[[], T]) -> T:
    try:
        return call()
    finally:  # gRPC and logging ask for `current_thread`, which before Python 3.13 keeps such a thread listed
        _listed.pop(threading.get_ident(), None)
