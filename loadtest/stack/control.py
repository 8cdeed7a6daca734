"""Lets the board freeze, thaw, kill and start instances of the local stack.

The board's side is app/board/sources/stack_client.py.

The stack owns the processes, so the stack acts: a process id that was handed on may name another process by the time
it is used. The socket is a file in a directory that only its own user can enter.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loadtest.stack import reaper
from loadtest.stack.process import ManagedProcess, ServerError


class Control(socketserver.ThreadingUnixStreamServer):
    """Answers at `path` until `close`; each question is one line of JSON, and so is its answer.

    Args:
        processes: which can be asked for, by their names.
        board: who asks. When it has ended, what is frozen goes on: nobody is left to thaw it.
    """

    daemon_threads = True

    def __init__(self, processes: Sequence[ManagedProcess], board: ManagedProcess) -> None:
        # Not in the stack's own directory: a socket's path must be short.
        self._directory = Path(tempfile.mkdtemp(prefix="flashsale-"))
        reaper.watch("directory", self._directory)
        self.path = self._directory / "control"
        self._processes = {process.name: process for process in processes}
        self._board = board
        super().__init__(str(self.path), _Question)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more; idempotent."""
        self.shutdown()
        self._thread.join()
        self.server_close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def service_actions(self) -> None:
        """Called after each question, and else twenty times a second."""
        if not self._board.running:
            for process in self._processes.values():
                if process.frozen:
                    process.resume()

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if question.get("ask") == "states":
            return {"states": {name: state_of(process) for name, process in self._processes.items()}}
        process, action = self._processes.get(str(question.get("instance"))), _ACTIONS.get(str(question.get("ask")))
        if process is None or action is None:
            return {"error": f"There is no {question.get('instance')!r} here, or nothing such can be done to it."}
        act, done = action
        try:
            if act is not ManagedProcess.start:
                process.require_running()
            act(process)
            return {"done": f"{process.name} {done}."}
        except ServerError as error:
            return {"error": str(error)}


class _Question(socketserver.StreamRequestHandler):
    server: Control

    def handle(self) -> None:
        answer = self.server.answer(json.loads(self.rfile.readline()))
        with contextlib.suppress(OSError):  # the board waits no longer
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def state_of(process: ManagedProcess) -> str:
    """running, frozen or ended."""
    if not process.running:
        return "ended"
    return "frozen" if process.frozen else "running"


# What is done, and what is said of it afterwards.
_ACTIONS: dict[str, tuple[Callable[[ManagedProcess], None], str]] = {
    "freeze": (ManagedProcess.pause, "is frozen (SIGSTOP)"),
    "thaw": (ManagedProcess.resume, "goes on (SIGCONT)"),
    "kill": (ManagedProcess.kill, "was killed (SIGKILL)"),
    "start": (ManagedProcess.start, "has started"),
}
