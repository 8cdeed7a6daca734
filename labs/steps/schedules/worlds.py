"""Several worlds, each in a process of its own, in which as many explorations go on at the same time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

import psutil

from labs.steps.schedules.world import World
from loadtest.shop_client.ledger import UNREADABLE
from loadtest.shop_client.shops import SaleError
from loadtest.stack.process import Resource, ServerError
from lock import LockError

Task = TypeVar("Task")
Result = TypeVar("Result")
EACH_CPU, MOST = 2, 8  # an exploration often waits: for an instance, and that for a server
REAPED_S = 5.0  # at most
READY, FOUND, FAILED = "ready", "found", "failed"
_fork = get_context("fork")  # nothing has to be imported anew


class Worlds(Resource):
    """Two for each CPU, but no more than `most`."""

    def __init__(self, directory: Path, *, most: int = MOST) -> None:
        number = min((os.cpu_count() or 1) * EACH_CPU, most, MOST)
        self._places = [directory / str(each) for each in range(number)]
        self._processes: dict[Connection, Any] = {}

    def start(self) -> None:
        """Start all; raises ServerError."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Begin to start all, while this process has no other thread: they are made by fork."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until each child ignores it
        try:
            for place in self._places:
                place.mkdir()
                mine, its = _fork.Pipe()
                arguments = (its, [*self._processes, mine], place)
                self._processes[mine] = _fork.Process(target=_serve, args=arguments, daemon=True)
                self._processes[mine].start()
                its.close()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def wait_ready(self) -> None:
        """Wait until all are started; raises ServerError."""
        for connection in self._processes:
            _receive(connection)

    def stop(self) -> None:
        """Kill all at once, and wait until the reaper of each has killed its servers and instances.

        They would make the directory anew that is removed next.
        """
        reaped = [child for process in self._processes.values() for child in _children_of(process.pid)]
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.join()
        deadline = time.monotonic() + REAPED_S
        while any(map(_lives, reaped)) and time.monotonic() < deadline:
            time.sleep(0.01)

    def each(self, work: Callable[[World, Task], Iterator[Result]], tasks: list[Task]) -> Iterator[tuple[Task, Result]]:
        """What `work` yields of each task, as it comes; raises ServerError.

        The tasks are begun in their order, and taken from the list. Those that are added meanwhile are done as well.
        """
        free = list(self._processes)
        under_way: dict[Connection, Task] = {}
        while tasks or under_way:
            while tasks and free:
                connection = free.pop()
                under_way[connection] = tasks.pop(0)
                connection.send((work, under_way[connection]))
            for connection in wait(list(under_way)):  # type: ignore[assignment]
                is_ready, result = _receive(connection)
                if not is_ready:
                    yield under_way[connection], result
                else:
                    del under_way[connection]
                    free.append(connection)


def _children_of(pid: int) -> list[psutil.Process]:
    """All processes below one, its reaper too; none if it has ended."""
    try:
        children: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
        return children
    except psutil.NoSuchProcess:
        return []


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _receive(connection: Connection) -> tuple[bool, Any]:
    """Whether its world is ready for a task, or else what it has found."""
    try:
        state, value = connection.recv()
    except EOFError:
        raise ServerError("a world has ended; why is said above") from None
    if state == FAILED:
        raise ServerError(value)
    return state == READY, value


def _serve(connection: Connection, others: list[Connection], directory: Path) -> None:
    """Be a world until the connection ends, or this process is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one at the other end
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the handler of the command would raise here
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for each in others:
        each.close()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            with World(directory) as world:
                while True:
                    connection.send((READY, None))
                    work, task = connection.recv()
                    for result in work(world, task):
                        connection.send((FOUND, result))
        except (ServerError, SaleError) as error:
            connection.send((FAILED, error.message))
        except (LockError, *UNREADABLE) as error:
            connection.send((FAILED, f"etcd or Redis does not answer: {error}"))
