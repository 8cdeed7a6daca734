"""The instances of a world: processes without HTTP that step their purchases, see `labs.steps.schedules.worker`."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import psutil

from labs.steps.wire import numbers_in
from loadtest.ports import free_port
from loadtest.stack.apps import App
from loadtest.stack.process import ServerError

TTL_S = 120  # of leases and of the Redis lock: none ends by itself while a schedule is tried
PASSED = "clock"  # the file of `Chance.passed` in `labs.steps.schedules.still`
ANSWER_S = 30.0
IDLE_S = 0.02  # behind which a thread that is not executed waits
NOW, SINCE_BOOT = float(int(time.time())), float(int(time.monotonic()))  # as all purchases of a command see them


class InstanceLost(ServerError):
    """An instance has ended, or does not answer: nothing more can be asked of it."""


class ForkServer(App):
    """The program that makes the instances; ready when it listens."""

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        own = {
            "SCHEDULES_NOW": str(NOW),
            "SCHEDULES_SINCE_BOOT": str(SINCE_BOOT),
            "PYTHONHASHSEED": "0",
            "SCHEDULES_WORK": str(directory / "work"),
            "SCHEDULES_PASSED": str(directory / PASSED),
        }
        super().__init__("instances", directory, free_port(), {**env, **own, "TMPDIR": str(directory / "tmp")})
        self.socket = directory / "instances.socket"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "labs.steps.schedules.worker", str(self.socket)]

    def is_ready(self) -> bool:
        return self.socket.exists()


class SteppedInstance:
    """One process with purchases; `ask` calls a method of its worker."""

    def __init__(self, server: ForkServer, name: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self.frozen = self.is_lost = False
        self._server = server
        self.pid = 0
        counts = server.directory / f"{name}.counts"
        self.sent = numbers_in(counts, "Q", 2)  # how much it has asked the servers for, see `labs.steps.wire`
        self._connection = Client(str(server.socket))
        self._send("", [{**environment, "FLASHSALE_INSTANCE": name, "SCHEDULES_COUNTS": str(counts)}])

    def ready(self) -> SteppedInstance:
        """Wait until it has connected to its servers; raises ServerError."""
        self.pid = int(self._receive())
        return self

    def ask(self, name: str, *arguments: Any) -> Any:
        self._send(name, arguments)
        return self._receive()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self, buyer: str = "") -> None:
        """Let it go on, after a pause beyond its lease; this purchase takes a step at once, if one is named."""
        self._send("thaw", (TTL_S, buyer))
        self._signal(signal.SIGCONT)
        self.frozen = False
        self._receive()

    def kill(self, *, programs: bool = False) -> None:
        """Kill -9, also of other programs that it has started; one that is not ready yet ends with its connection."""
        if programs:
            self._signal(signal.SIGSTOP)  # so that it starts no more of them
            with suppress(psutil.NoSuchProcess):
                for each in psutil.Process(self.pid).children(recursive=True):
                    each.kill()
        self._signal(signal.SIGKILL)
        self._connection.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if self.pid:
                os.kill(self.pid, number)

    def _send(self, name: str, arguments: Any) -> None:
        try:
            self._connection.send((name, arguments))
        except OSError as error:
            raise self._lost(f"has ended: {error}") from error

    def _receive(self) -> Any:
        try:
            if not self._connection.poll(ANSWER_S):
                raise self._lost(f"does not answer within {ANSWER_S:g} s")
            result, error = self._connection.recv()
        except (EOFError, OSError) as ended:
            raise self._lost(f"has ended; {self._server.reason()}") from ended
        if error:
            raise ServerError(f"{self.name}: {error}")
        return result

    def _lost(self, why: str) -> InstanceLost:
        self.is_lost = True
        return InstanceLost(f"{self.name} {why}")


def ask_together(questions: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The answers to questions ``(instance, name, *arguments)``, which the instances answer at the same time."""
    asked: list[SteppedInstance] = []
    try:
        for instance, name, *arguments in questions:
            instance._send(name, arguments)
            asked.append(instance)
        return [instance._receive() for instance in asked]
    except InstanceLost:
        for instance in asked:
            instance.is_lost = True  # an answer of it may still be out
        raise
