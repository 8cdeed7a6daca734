"""The local stack that started this board, asked to freeze, thaw, kill or start one of its instances.

It listens on a socket file that only its own user can open. One line of JSON goes there, one comes back::

    {"ask": "states"}                                 {"states": {"instance-8080": "running"}}
    {"ask": "freeze", "instance": "instance-8080"}    {"done": "instance-8080 is frozen"}  or  {"error": "..."}
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

ACTIONS = ("freeze", "thaw", "kill", "start")
TIMEOUT = 1.0
ACT_TIMEOUT = 5.0  # the stack waits up to 0.8 s until a process stands still
START_TIMEOUT = 35.0  # the stack gives up after 30, and then says why


class StackRefused(Exception):
    """The stack refused an action; the message says why."""


class StackClient:
    """Speaks to the stack behind the socket at `path`; every call has a deadline. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def states(self) -> dict[str, str]:
        """State of each instance by name: "running", "frozen" or "ended"; raises OSError and ValueError."""
        return dict(self._ask({"ask": "states"}, timeout=TIMEOUT)["states"])

    def act(self, action: str, instance: str) -> str:
        """Do one of `ACTIONS` to an instance, and return what was done; raises `StackRefused`, or as `states`."""
        timeout = START_TIMEOUT if action == "start" else ACT_TIMEOUT
        answer = self._ask({"ask": action, "instance": instance}, timeout=timeout)
        if "error" in answer:
            raise StackRefused(str(answer["error"]))
        return str(answer["done"])

    def _ask(self, question: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(timeout)
            line.connect(str(self._path))
            line.sendall(json.dumps(question).encode() + b"\n")
            with line.makefile("rb") as stream:
                answer: dict[str, Any] = json.loads(stream.readline())
        return answer
