"""An adapter as a process: requests and responses in JSON lines, and what a fault does to the process."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from loadtest.stack import reaper

START_S = 60.0  # an interpreter and a client, on a machine with much else to do


class NotTried(Exception):
    """Something cannot be tried here; says why."""


@dataclass(frozen=True)
class Response:
    """What an adapter answered; `offered` is False if its library does not have what was asked."""

    result: Any = None
    error: str | None = None
    offered: bool = True

    @property
    def acquired(self) -> bool:
        return self.result is True

    @property
    def refused(self) -> bool:
        """Whether it says no, or raised."""
        return self.result is False or bool(self.error)


Then = Callable[[Response], None]


class Program:
    """An adapter that runs, with the version of its library; its errors go into `log`."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], directory: Path, log: Path) -> None:
        self._numbers = itertools.count()
        self._pending: dict[int, tuple[Future[Response], Then | None]] = {}
        self._lock = threading.Lock()
        ready = self._expect(None)[1]
        pipe, environment = subprocess.PIPE, {**os.environ, **env}
        with log.open("ab") as errors:
            self._popen = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=errors, env=environment, cwd=directory, start_new_session=True
            )
        reaper.watch("group", self._popen.pid)
        threading.Thread(target=self._read, name="adapter", daemon=True).start()
        with suppress(TimeoutError):
            ready.result(START_S)
        if not ready.done() or ready.result().error:
            self.kill()
            raise NotTried(last_error(log.read_text(errors="replace")) or f"no answer within {START_S:g} s")
        self.version = str(ready.result().result)

    def send(self, do: str, contender: str, then: Then | None = None, **arguments: Any) -> Future[Response]:
        """Ask; `then` is called when the response arrives. A process that ended answers with an error."""
        number, future = self._expect(then)
        line = json.dumps({"id": number, "do": do, "contender": contender, **arguments}) + "\n"
        assert self._popen.stdin is not None
        try:
            self._popen.stdin.write(line.encode())
            self._popen.stdin.flush()
        except OSError:
            self._answer(number, Response(error="the process ended"))
        return future

    def _expect(self, then: Then | None) -> tuple[int, Future[Response]]:
        with self._lock:
            number, future = next(self._numbers), Future[Response]()
            self._pending[number] = (future, then)
        return number, future

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            with suppress(ValueError):  # what a library prints
                found = json.loads(line)
                self._answer(found.pop("id"), Response(**found))
        for number in list(self._pending):
            self._answer(number, Response(error="the process ended"))

    def _answer(self, number: int, response: Response) -> None:
        with self._lock:
            future, then = self._pending.pop(number, (None, None))
        if then is not None:
            then(response)
        if future is not None:
            future.set_result(response)

    def pause(self) -> None:
        os.killpg(self._popen.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self._popen.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to it and its children; idempotent."""
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        reaper.forget("group", self._popen.pid)

    def threads(self) -> int:
        """The threads of the process, and of its children."""
        first = psutil.Process(self._popen.pid)
        return sum(process.num_threads() for process in (first, *first.children(recursive=True)))


def last_error(text: str) -> str:
    """The last line that names an error, or the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(error|exception)\b", line, re.IGNORECASE)]
    return (named or lines or [""])[-1]
