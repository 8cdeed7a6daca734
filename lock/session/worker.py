"""Does what no caller waits for: what the core commands, watches, timers, and the notes that callers leave.

It also tells a program that the lease may end, while there is time to stop cleanly.

Its thread starts with the first acquisition. It sends requests as futures, so that nothing slow delays a timer.

Error handling: an unexpected error is logged, and the thread goes on.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from lock.core import messages
from lock.etcd.watches import Watch
from lock.runtime.clock import now

if TYPE_CHECKING:
    from lock.session.engine import Engine

logger = logging.getLogger(__name__)

_RETRY_S = 0.05
_LEFT = 0.5  # of the TTL: a renewal is due when two thirds are left, so by then some have failed
_AGAIN = 0.1  # of the TTL: how soon it is seen that this outage is over


class Worker:
    """The thread ``lock-worker`` of one session."""

    is_started = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._inbox: queue.SimpleQueue[tuple[messages.Request, Future[Any]] | None] = queue.SimpleQueue()
        self._watches: dict[str, Watch] = {}
        self._thread: threading.Thread | None = None
        self._warnings: list[Callable[[float], object]] = []
        self._is_overdue = False

    def start(self) -> None:
        """Start its thread, once; RuntimeError where the machine is out of threads. With the engine's lock held."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="lock-worker", daemon=True)
            thread.start()
            self._thread, self.is_started = thread, True

    def warn_by(self, callback: Callable[[float], object]) -> None:
        """Call it with the seconds left once for each outage, from now on; at once if a renewal is overdue."""
        self._warnings.append(callback)
        if self._is_overdue:
            self._warn(callback)

    def wake(self) -> None:
        """There is something to do; never waits, and takes no lock."""
        self._inbox.put(None)

    def join(self, timeout: float) -> None:
        """Wait for its end, but in its own thread."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _work(self) -> None:
        engine, commands = self._engine, deque[messages.Command]()
        while True:
            try:
                due = min(engine.poll(commands), self._look_after_renewals())
                while commands:
                    self._carry_out(commands[0])
                    commands.popleft()
                if engine.core.failure is not None:
                    return
                if self._watches:
                    engine.client.watches.check()
                self._receive(due)
            except Exception:  # a machine that is out of threads or memory
                logger.exception("session %s", engine.name)
                time.sleep(_RETRY_S)

    def _look_after_renewals(self) -> float:
        core = self._engine.core
        due = core.deadline - core.ttl * _LEFT
        if not self._warnings or core.failure is not None:
            return math.inf
        moment = now()
        if moment < due:
            self._is_overdue = False
            return due
        if not self._is_overdue:
            self._is_overdue = True
            for callback in list(self._warnings):
                self._warn(callback)
        return moment + core.ttl * _AGAIN

    def _warn(self, callback: Callable[[float], object]) -> None:
        self._engine.callbacks.send(lambda: callback(self._engine.core.remaining(now())))

    def _receive(self, due: float) -> None:
        """Wait until something is due, and take in whatever has come."""
        engine = self._engine
        with contextlib.suppress(queue.Empty):
            item = self._inbox.get(timeout=min(max(due - now(), 0.0), threading.TIMEOUT_MAX))
            while True:
                if item is not None:
                    request, done = item
                    engine.exchange(engine.core, request, answer_of=done.result)
                item = self._inbox.get_nowait()

    def _carry_out(self, command: messages.Command) -> None:
        engine = self._engine
        watches = engine.client.watches
        match command:
            case messages.Follow():
                handle = partial(engine.apply, engine.core.following.handle_event, command.prefix)
                self._watches[command.prefix] = watches.add(command.prefix, handle)
            case messages.Unfollow():
                watch = self._watches.pop(command.prefix, None)
                if watch is not None:
                    watches.remove(watch)
            case messages.Renew():
                engine.lease.wake()
            case _:
                answer = engine.send(engine.core, command)
                answer.add_done_callback(lambda done: self._inbox.put((command, done)))
