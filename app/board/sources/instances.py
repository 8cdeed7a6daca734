"""The state of each instance: whether it answers, is busy, frozen or down."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from app.board.sources.heartbeats import WorkerStatus
from app.board.sources.locust import DIRECT
from app.board.sources.poller import Poller
from app.board.sources.stack_client import StackClient

TIMEOUT = 0.8
EVERY_S = 1.0


class State(str, Enum):
    """How an instance is, as far as can be seen from here."""

    UP = "up"
    BUSY = "busy"  # it lives, but no thread is free to answer
    SILENT = "silent"  # it takes connections, but neither answers nor sends heartbeats
    FROZEN = "frozen"  # stopped by a signal
    DOWN = "down"  # it takes no connections


MAY_GO_ON = (State.FROZEN, State.SILENT)  # a process without heartbeats may still answer what it has in hand


@dataclass(frozen=True)
class Reach:
    """What came of asking an instance: its name if it answered."""

    name: str | None
    refused: bool = False  # no connections are taken there


def ask_livez(url: str) -> Reach:
    """Whether the instance at `url` answers within `TIMEOUT` seconds."""
    try:
        with DIRECT.open(f"{url}/livez", timeout=TIMEOUT) as response:
            return Reach(str(json.load(response)["instance"]))
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        return Reach(None, refused=isinstance(getattr(error, "reason", None), ConnectionRefusedError | socket.gaierror))


class Instances:
    """Watches all instances, each in its own thread.

    Attributes:
        pollers: the threads; start and close them.
    """

    def __init__(self, urls: tuple[str, ...], stack: StackClient | None) -> None:
        self._names = {url: url.rpartition("//")[2] for url in urls}
        self._reach = {
            url: Poller(f"livez {url}", lambda url=url: ask_livez(url), errors=(), every_s=EVERY_S)  # type: ignore[misc]
            for url in urls
        }
        self._states = Poller("stack", stack.states, errors=(OSError, ValueError), every_s=0.5) if stack else None
        self.pollers: list[Poller[Any]] = [*self._reach.values(), *([self._states] if self._states else [])]

    def look(self, living: Sequence[WorkerStatus]) -> list[dict[str, Any]]:
        """All instances as the page shows them; `living` are the heartbeats of the processes that live."""
        return [self._look(url, poller.latest.value, living) for url, poller in self._reach.items()]

    def _look(self, url: str, reach: Reach | None, living: Sequence[WorkerStatus]) -> dict[str, Any]:
        if reach is not None and reach.name is not None:
            self._names[url] = reach.name
        name = self._names[url]
        own = [beat for beat in living if beat.instance == name]
        states = (self._states.latest.value if self._states else None) or {}
        return {
            "name": name,
            "url": url,
            "state": _state(reach, own, states.get(name)),
            "pids": [beat.pid for beat in own],
            "threads": sum(beat.threads for beat in own),
            "busy": sum(beat.busy for beat in own),
            "queued": sum(beat.queued for beat in own) if own else None,
        }


def _state(reach: Reach | None, living: Sequence[WorkerStatus], known: str | None) -> State:
    if known == "frozen":
        return State.FROZEN
    if known == "ended":
        return State.DOWN
    if reach is not None and reach.name is not None:
        return State.UP
    if living:
        return State.BUSY
    return State.DOWN if reach is not None and reach.refused else State.SILENT
