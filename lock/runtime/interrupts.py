"""Keeps KeyboardInterrupt out of what it would break.

Python raises it in the main thread at any point, also between the taking of a lock and the ``with`` that would give it
back. gRPC is full of such points, and a channel whose lock is lost never answers again. So a kept thread, which no
signal interrupts, makes the main thread's calls: a second one where the first is still busy after an interrupt.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

from lock.runtime.clock import now

P = ParamSpec("P")
T = TypeVar("T")

_WAKE_S = 1.0
_MAIN_THREAD = threading.main_thread().ident

_Job = tuple[Callable[[], Any], "queue.SimpleQueue[Future[Any]]"]


class _KeptThread:
    """Makes one call after the other, until the process ends."""

    def __init__(self) -> None:
        self._works = False
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()  # in C: nothing in it can be interrupted halfway
        threading.Thread(target=self._work, name="main-thread-calls", daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Whether a call has not ended, perhaps one whose caller was interrupted."""
        return self._works or not self._jobs.empty()

    def run(self, call: Callable[[], T]) -> T:
        """What `call` returns or raises."""
        outcome: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
        self._jobs.put((call, outcome))
        return outcome.get().result()

    def _work(self) -> None:
        while True:
            call, outcome = self._jobs.get()
            self._works = True
            future: Future[Any] = Future()
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            self._works = False
            outcome.put(future)
            del call, outcome, future  # or what they refer to would live on until the next call


_kept: list[_KeptThread] = []
os.register_at_fork(after_in_child=_kept.clear)


def run_uninterrupted(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What `call` returns or raises; a KeyboardInterrupt does not stop it, once it has begun."""
    if not is_interruptible():
        return call(*args, **options)
    for thread in _kept:
        if not thread.is_busy:
            return thread.run(partial(call, *args, **options))
    try:
        thread = _KeptThread()
    except RuntimeError:  # the interpreter ends, and starts no threads any more
        return call(*args, **options)
    _kept.append(thread)
    return thread.run(partial(call, *args, **options))


def is_interruptible() -> bool:
    """Whether a KeyboardInterrupt may come here: in the main thread, but where a loop makes a cancellation of it."""
    return threading.get_ident() == _MAIN_THREAD and not _runs_a_loop()


class InterruptSafeEvent:
    """As `threading.Event`, for one waiting thread at a time: it waits in C, so that an interrupt breaks nothing."""

    def __init__(self) -> None:
        self._is_set = False
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Wake the waiting thread, now and from now on."""
        self._is_set = True
        self._wakeups.put(None)

    def clear(self) -> None:
        """Wait again from now on; look at what it tells of only after this."""
        self._is_set = False

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is set, for `timeout` seconds at most; whether it is.

        The main thread, which alone handles signals, wakes every second: the kernel may hand one to another thread.
        """
        until = math.inf if timeout is None else now() + timeout
        longest = _WAKE_S if threading.get_ident() == _MAIN_THREAD else threading.TIMEOUT_MAX
        while not self._is_set:
            with contextlib.suppress(queue.Empty):
                self._wakeups.get(timeout=max(min(until - now(), longest), 0.0))
            if now() >= until:
                break
        return self._is_set


def require_threads() -> None:
    """Raise RuntimeError where gevent has patched what gRPC and this package need: the first wait would stop all."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and any(map(monkey.is_module_patched, ("threading", "_thread", "queue"))):
        raise RuntimeError(
            "gevent has patched this process, and an etcd lock needs real threads and queues: "
            "use it in a process without gevent.monkey (gunicorn: --worker-class gthread)"
        )


def _runs_a_loop() -> bool:
    """Whether this thread runs an event loop: `asyncio.run` makes a cancellation of an interrupt (Python 3.11)."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
