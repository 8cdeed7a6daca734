"""Does what no thread waits for: what the core commands, watches, timers, notes, and all that tasks want of a session.

It sends requests as futures, so that nothing slow delays a timer.

Error handling: an unexpected error is logged, and the thread goes on.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakMethod

from lock.core import messages
from lock.etcd.watches import Watch
from lock.runtime.clock import now
from lock.runtime.interrupts import start_apart

if TYPE_CHECKING:
    from lock.session.engine import Engine

logger = logging.getLogger(__name__)

_RETRY_S = 0.05
_MOST = 64  # requests of tasks at once: as many as etcd has use for, as each takes memory, and time of this thread


class Worker(threading.Thread):
    """The thread ``lock-worker`` of one session."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(name="lock-worker", daemon=True)
        self._engine = engine
        self._inbox: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._watches: dict[str, Watch] = {}
        self._timers: list[tuple[float, int, WeakMethod[Callable[[], object]]]] = []
        self._numbers = itertools.count()
        self._has_ended = False
        self.line = Line(self)

    def wake(self) -> None:
        """There is something to do; never waits, and takes no lock."""
        self._inbox.put(None)

    def do(self, call: Callable[[], object]) -> None:
        """Have it called by this thread; never waits, and takes no lock."""
        self._inbox.put(call)
        if self._has_ended:  # with its session: other threads tell so whatever comes now
            start_apart(self._drain)

    def do_at(self, moment: float, call: Callable[[], object]) -> None:
        """Have a method called at that time, if its object still lives then; to be called by this thread."""
        heapq.heappush(self._timers, (moment, next(self._numbers), WeakMethod(call)))

    def run(self) -> None:
        engine, commands = self._engine, deque[messages.Command]()
        while True:
            try:
                due = engine.poll(commands)
                while commands:
                    self._carry_out(commands[0])
                    commands.popleft()
                if engine.core.failure is not None:
                    break
                self._receive(min(due, engine.client.watches.check()))
            except Exception:  # a machine that is out of threads or memory
                logger.exception("session %s", engine.name)
                time.sleep(_RETRY_S)
        self._has_ended = True
        engine.client.watches.check(is_done=True)
        self._drain()

    def _receive(self, due: float) -> None:
        """Wait until something is due, and take in whatever has come."""
        if self._timers:
            due = min(due, self._timers[0][0])
        with contextlib.suppress(queue.Empty):
            call = self._inbox.get(timeout=min(max(due - now(), 0.0), threading.TIMEOUT_MAX))
            if call is not None:
                call()
            del call  # it may hold a hold
            self._drain()
        while self._timers and self._timers[0][0] <= now():
            method = heapq.heappop(self._timers)[2]()
            if method is not None:
                method()

    def _drain(self) -> None:
        """Take in what has come until now; what comes meanwhile must not keep the core's commands waiting."""
        for _ in range(self._inbox.qsize()):
            with contextlib.suppress(queue.Empty):
                call = self._inbox.get_nowait()
                if call is not None:
                    call()
                del call

    def _carry_out(self, command: messages.Command) -> None:
        engine = self._engine
        watches = engine.client.watches
        match command:
            case messages.Follow():
                handle = partial(engine.apply, engine.core.following.handle_event, command.prefix)
                self._watch(command.prefix, watches.add(command.prefix, handle))
            case messages.FollowKey():
                handle = partial(engine.apply, engine.core.predecessors.handle_event, command.position)
                self._watch(command.prefix, watches.add(command.key, handle, is_key=True, known=command.known))
            case messages.Unfollow():
                self._watch(command.prefix, None)
            case messages.Renew():
                engine.lease.wake()
            case _:
                sent = engine.send(engine.core, command)
                take = partial(engine.exchange, engine.core, command, answer_of=sent.result)
                sent.add_done_callback(lambda _: self.do(take))

    def _watch(self, prefix: str, watch: Watch | None) -> None:
        """Watch by this from now on; one that begins before the other ends keeps their stream."""
        before = self._watches.pop(prefix, None)
        if watch is not None:
            self._watches[prefix] = watch
        if before is not None:
            self._engine.client.watches.remove(before)


class Line:
    """Requests that are sent one after the other by the worker, so many at once."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._free = _MOST
        self._waiting: deque[Callable[[], bool]] = deque()

    def enter(self, send: Callable[[], bool]) -> None:
        """Have it called when it is its turn; it returns whether it has sent a request, which is over at a `leave`."""
        self._waiting.append(send)
        self._let_in()

    def leave(self) -> None:
        """A request is over; for any thread."""
        with self._lock:
            self._free += 1
        if self._waiting:
            self._worker.do(self._let_in)

    def _let_in(self) -> None:
        while self._free and self._waiting:
            is_sent = self._waiting.popleft()()
            with self._lock:
                self._free -= is_sent
