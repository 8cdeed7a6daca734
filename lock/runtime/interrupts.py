"""Keeps signal handlers, such as that of Ctrl-C, out of what they would break.

Python calls them in the main thread at any point, also between the taking of a lock and the ``with`` that would give it
back; and a gRPC channel whose lock is lost never answers again. So for the time of one step there, a handler that only
notes the signal stands in for each that is Python's; what was noted is handled after the step, or where it waits in C:
nothing is halfway done there. (`signal`, "Note on Signal Handlers and Exceptions".) Other threads pay nothing.
"""

import _signal  # type: ignore[import-not-found]  # unknown to typeshed
import contextlib
import importlib
import math
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import get_ident
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from lock.runtime.clock import now

P = ParamSpec("P")
T = TypeVar("T")

_WAKE_S = 1.0
_SIGINT = int(_signal.SIGINT)
_SIGNALS = sorted(map(int, _signal.valid_signals()), key=_SIGINT.__ne__)  # SIGINT is the first


def _is_main_interpreter() -> bool:
    try:
        interpreters = importlib.import_module("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    except ImportError:  # there is no other one
        return True
    return bool(interpreters.get_current() == interpreters.get_main())


main_thread = threading.main_thread().ident if _is_main_interpreter() else None  # None: no handler runs in any
_is_in_step = False
_handlers: dict[int, Any] = {}  # those that `_note` stands in for, or did
_arrived: deque[tuple[int, FrameType | None]] = deque()


def run_uninterrupted(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What `call` returns or raises, as a step: no signal handler runs meanwhile, but where it waits."""
    if get_ident() != main_thread or _is_in_step or _runs_a_loop():
        return call(*args, **options)
    try:
        _begin()
        return call(*args, **options)
    finally:
        _end()


def run_or_undo(undo: Callable[[T], object], call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """As `run_uninterrupted`; `undo` is called with what a handler that raises keeps from the caller."""
    results: list[T] = []
    try:
        run_uninterrupted(lambda: results.append(call(*args, **options)))
        return results[0]
    except BaseException:
        if results:
            run_uninterrupted(undo, results[0])
        raise


def run_apart(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What `call` returns or raises; it goes on, in a thread for it alone, where an interrupt ends the wait for it."""
    if not is_interruptible():
        return call(*args, **options)
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(call(*args, **options))
        except BaseException as error:
            outcome.set_exception(error)

    try:
        run_uninterrupted(threading.Thread(target=work, name="lock-call", daemon=True).start)
    except RuntimeError:  # the interpreter ends, and starts no threads any more
        return run_uninterrupted(call, *args, **options)
    return await_done(outcome)


def is_interruptible() -> bool:
    """Whether handlers run in this thread: it is the main one, and no loop makes a cancellation of an interrupt."""
    return get_ident() == main_thread and not _runs_a_loop()


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Let handlers run meanwhile: where the step waits, and nothing is halfway done."""
    if not _is_in_step or get_ident() != main_thread:
        yield
        return
    try:
        _end()
        yield
    finally:
        _begin()


def await_done(future: Future[T], timeout: float | None = None, late: Exception | None = None) -> T:
    """The future's result; waits for it in C. Raises `late` after `timeout` seconds."""
    done = InterruptSafeEvent()
    run_uninterrupted(future.add_done_callback, lambda _: done.set())
    if not done.wait(timeout) and late is not None:
        raise late
    return run_uninterrupted(future.result)


class InterruptSafeEvent:
    """As `threading.Event`, for one waiting thread at a time: it waits in C, so that an interrupt breaks nothing."""

    def __init__(self) -> None:
        self._is_set = False
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        self._is_set = True
        self._wakeups.put(None)

    def clear(self) -> None:
        """Wait again from now on; look at what it tells of only after this."""
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Until it is set, for `timeout` seconds at most; whether it is.

        The main thread, which alone handles signals, wakes every second: the kernel may hand one to another thread.
        """
        until = math.inf if timeout is None else now() + timeout
        longest = _WAKE_S if get_ident() == main_thread else threading.TIMEOUT_MAX
        with lifted():
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


# The signals of a step. `_signal` has what `signal` wraps in enums, which cost ten times as much as all the rest.


def _begin() -> None:
    """Note signals from now on: SIGINT first, so that no interrupt comes between two of them."""
    global _is_in_step
    _is_in_step = True
    for number in _SIGNALS:
        handler = _signal.getsignal(number)
        if handler.__class__ is not int and callable(handler) and handler is not _note:
            _handlers[number] = handler
            _signal.signal(number, _note)


def _end() -> None:
    """Put back the handlers that still stand as `_begin` has left them, SIGINT's last; then handle what was noted."""
    global _is_in_step
    try:
        for number in sorted(_handlers, key=_SIGINT.__eq__):
            if _signal.getsignal(number) is _note:
                _signal.signal(number, _handlers[number])
        _is_in_step = False
    finally:  # where one of them raises; and an interrupt may come at the last line or at the next
        _is_in_step = False
        _handle()


def _handle() -> None:
    """Call the handlers of the signals that were noted, in their order."""
    if _arrived:
        number, frame = _arrived.popleft()
        try:
            handler = _signal.getsignal(number)  # a callback may have set another one
            if handler is _note:
                handler = _handlers[number]
            if callable(handler):
                handler(number, frame)
        finally:
            _handle()


def _note(number: int, frame: FrameType | None) -> None:
    """The handler during a step; one that was left behind, or put back by a callback, hands on."""
    _arrived.append((number, frame))
    if not _is_in_step:
        _handle()
    elif frame is not None and _waits_for_grpc(frame):
        with lifted():
            pass


def _waits_for_grpc(frame: FrameType) -> bool:
    """Whether it waits for an answer: there, and only there, gRPC lets what a handler raises pass (`next_event`)."""
    if frame.f_code.co_name != "_blocking" or frame.f_globals.get("__name__") != "grpc._channel":
        return False
    return "call" in frame.f_locals and "event" not in frame.f_locals


def _forget() -> None:
    """In a forked child: the step, and what was noted, are the parent's."""
    global main_thread
    if main_thread is not None:
        main_thread = get_ident()
    _arrived.clear()
    _end()


os.register_at_fork(after_in_child=_forget)
