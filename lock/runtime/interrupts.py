"""Keeps out of the main thread what a signal handler would break there.

Python calls signal handlers in the main thread, between any two steps of its code: also between the taking of a lock
and the ``with`` that would give it back. (`signal`, "Note on Signal Handlers and Exceptions".) So the main thread hands
each of its calls to another thread and waits in C, in a `queue.SimpleQueue`, where nothing is halfway done. An
interrupt ends this wait; the call goes on, or is undone. All other threads call directly.
"""

import _thread
import atexit
import contextlib
import contextvars
import logging
import math
import os
import queue
import sys
import threading
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any, Generic, TypeVar

from lock.runtime.clock import now

logger = logging.getLogger(__name__)

T = TypeVar("T")

_WAKE_S = 1.0  # the main thread looks this often for a signal that the kernel has handed to another thread
_IDLE = 2  # threads that are kept for the next call


def run_apart(
    call: Callable[..., T],
    *args: Any,
    accept: Callable[[T], object] | None = None,
    undo: Callable[[T], object] | None = None,
    **options: Any,
) -> T:
    """What `call` returns or raises; it goes on in another thread where an interrupt ends the wait for it.

    - `accept` is called in this thread with the result.
    - `undo` is called in another thread with a result that an interrupt has kept from the caller.
    """
    if get_ident() != _threads.main or _threads.is_over:
        result = call(*args, **options)
        if accept is not None:
            accept(result)
        return result
    handed = _Call(partial(contextvars.copy_context().run, call, *args, **options), undo)
    try:
        _threads.do(handed.run)
        handed.wait()
        if handed.error is None:
            result = handed.results[0]
            if accept is not None:
                accept(result)
            return result
    except BaseException:
        handed.is_abandoned = True
        _threads.do(handed.undo_once)
        raise
    error, handed.error = handed.error, None
    try:
        raise error
    finally:
        del error, handed  # its traceback refers to this frame


def start_apart(call: Callable[[], object]) -> None:
    """Have `call` made in another thread; returns at once, and takes no lock."""
    _threads.do(call)


class _Call(Generic[T]):
    """A call of the main thread, made in another one. Atomic steps of lists and queues are all that both share."""

    def __init__(self, call: Callable[[], T], undo: Callable[[T], object] | None) -> None:
        self._call = call
        self._undo = undo
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.is_done = self.is_abandoned = False
        self.results: list[T] = []  # one, which is taken by what undoes it
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.results.append(self._call())
        except BaseException as error:
            self.error = error
        self.is_done = True
        self._done.put(None)
        if self.is_abandoned:
            self.undo_once()

    def wait(self) -> None:
        while not self.is_done:
            with contextlib.suppress(queue.Empty):
                self._done.get(timeout=_WAKE_S)

    def undo_once(self) -> None:
        """Its caller was interrupted; called twice, by what makes the call and by what tells of the interrupt."""
        if self._undo is not None:
            with contextlib.suppress(IndexError):
                self._undo(self.results.pop())


class _Threads:
    """Threads that make calls: one for each that is under way, and some that wait for the next one."""

    def __init__(self) -> None:
        self.main = threading.main_thread().ident
        self.is_over = False
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = self._idle = 0

    def do(self, call: Callable[[], object]) -> None:
        """Have it called soon, by any thread; here where no thread can be started."""
        self._calls.put(call)
        if not self._count:
            try:
                _thread.start_new_thread(self._add, ())  # unlike `Thread.start`, it is one step
            except RuntimeError:  # the interpreter ends, or the machine is out of threads
                with contextlib.suppress(queue.Empty):
                    self._calls.get_nowait()()

    def _add(self) -> None:
        try:
            threading.Thread(target=self._serve, name="lock-call", daemon=True).start()
        except RuntimeError:
            if not self._count:
                self._serve()

    def _serve(self) -> None:
        with self._lock:
            self._count += 1
        while True:
            with self._lock:
                if self._idle == _IDLE:
                    self._count -= 1
                    return
                self._idle += 1
            call = self._calls.get()
            with self._lock:
                self._idle -= 1
                is_last = not self._idle
            if is_last:  # the next call must not wait for this one
                self._add()
            try:
                call()
            except BaseException:  # SystemExit would end this thread
                logger.exception("what an interrupt has left behind is not undone")
            del call


_threads = _Threads()


def _forget() -> None:
    """Forget the threads: a forked child has none of its parent's."""
    _threads.__init__()  # type: ignore[misc]


@atexit.register
def _call_directly() -> None:
    """The interpreter ends, and with it all other threads."""
    _threads.is_over = True


os.register_at_fork(after_in_child=_forget)


class InterruptSafeEvent(threading.Event):
    """An event without a lock that an interrupt could leave taken: it waits in C, and setting it never blocks."""

    def __init__(self) -> None:
        self._flag = False
        self._waits: list[queue.SimpleQueue[None]] = []

    def is_set(self) -> bool:
        return self._flag

    def set(self) -> None:
        self._flag = True
        for waiting in list(self._waits):
            waiting.put(None)

    def clear(self) -> None:
        """Wait again from now on; look at what it tells of only after this."""
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, for `timeout` seconds at most; whether it is."""
        until = math.inf if timeout is None else now() + timeout
        longest = _WAKE_S if get_ident() == _threads.main else threading.TIMEOUT_MAX
        woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        try:
            self._waits.append(woken)
            while not self._flag and (left := until - now()) > 0:
                with contextlib.suppress(queue.Empty):
                    woken.get(timeout=min(left, longest))
            return self._flag
        finally:
            with contextlib.suppress(ValueError):
                self._waits.remove(woken)


def require_threads() -> None:
    """Raise RuntimeError if gevent has patched what gRPC and this package need: the first wait would stop all."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and any(map(monkey.is_module_patched, ("threading", "_thread", "queue"))):
        raise RuntimeError(
            "gevent has patched this process, and an etcd lock needs real threads and queues: "
            "use it in a process without gevent.monkey (gunicorn: --worker-class gthread)"
        )
