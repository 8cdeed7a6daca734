"""Does what no caller waits for: what the core commands, watches, timers, and the notes that callers leave.

Its thread starts with the first acquisition. It sends requests as futures, so that nothing slow delays a timer.

Error handling: an unexpected error is logged, and the thread goes on.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import deque
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


class Worker:
    """The thread ``lock-worker`` of one session."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._inbox: queue.SimpleQueue[tuple[messages.Request, Future[Any]] | None] = queue.SimpleQueue()
        self._watches: dict[str, Watch] = {}
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        """Start its thread, once; RuntimeError where the machine is out of threads."""
        with self._engine.lock:
            if self.thread is None:
                thread = threading.Thread(target=self._work, name="lock-worker", daemon=True)
                thread.start()
                self.thread = thread

    def wake(self) -> None:
        """There is something to do; never waits, and takes no lock."""
        self._inbox.put(None)

    def _work(self) -> None:
        engine, commands = self._engine, deque[messages.Command]()
        while True:
            try:
                due = engine.poll(commands)
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
