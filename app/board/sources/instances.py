"""How each instance of the shop is: whether it answers, is busy, frozen or gone."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.request
from dataclasses import dataclass
from enum import Enum
from typing import Any

from app.board.sources.heartbeats import Life
from app.board.sources.poller import Probe
from app.board.sources.stack_client import StackControl

TIMEOUT = 0.8
EVERY_S = 1.0
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class State(str, Enum):
    """How an instance is, as far as can be seen from here."""

    UP = "up"
    BUSY = "busy"  # it lives, but no thread is free to answer
    SILENT = "silent"  # it takes connections and does not answer, nor tell of itself
    FROZEN = "frozen"  # stopped by a signal
    AWAY = "away"  # nobody takes the connection


@dataclass(frozen=True)
class Reach:
    """What came of asking an instance: its name if it answered."""

    name: str | None
    refused: bool = False  # nobody takes connections there


def ask_livez(url: str) -> Reach:
    """Whether the instance at `url` answers within `TIMEOUT` seconds."""
    try:
        with _direct.open(f"{url}/livez", timeout=TIMEOUT) as response:
            return Reach(str(json.load(response)["instance"]))
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        return Reach(None, refused=isinstance(getattr(error, "reason", None), ConnectionRefusedError | socket.gaierror))


class Instances:
    """Watches all instances, each in a thread of its own."""

    def __init__(self, urls: tuple[str, ...], stack: StackControl | None) -> None:
        self._names = {url: url.rpartition("//")[2] for url in urls}
        self._reach = {
            url: Probe(f"livez {url}", lambda url=url: ask_livez(url), away=(), every_s=EVERY_S)  # type: ignore[misc]
            for url in urls
        }
        self._states = Probe("stack", stack.states, away=(OSError, ValueError), every_s=0.5) if stack else None

    def start(self) -> None:
        for probe in self._probes():
            probe.start()

    def close(self) -> None:
        for probe in self._probes():
            probe.close()

    def _probes(self) -> list[Probe[Any]]:
        return [*self._reach.values(), *([self._states] if self._states else [])]

    def look(self, lives: list[Life]) -> list[dict[str, Any]]:
        """All instances as the page shows them; `lives` are the processes that live."""
        return [self._look(url, probe.told.value, lives) for url, probe in self._reach.items()]

    def _look(self, url: str, reach: Reach | None, lives: list[Life]) -> dict[str, Any]:
        if reach is not None and reach.name is not None:
            self._names[url] = reach.name
        name = self._names[url]
        own = [life for life in lives if life.instance == name]
        states = (self._states.told.value if self._states else None) or {}
        return {
            "name": name,
            "url": url,
            "state": _state(reach, own, states.get(name)).value,
            "pids": [life.pid for life in own],
            "threads": sum(life.threads for life in own),
            "busy": sum(life.busy for life in own),
            "queued": sum(life.queued for life in own) if own else None,
        }


def _state(reach: Reach | None, lives: list[Life], known: str | None) -> State:
    if known == "frozen":
        return State.FROZEN
    if known == "ended":
        return State.AWAY
    if reach is not None and reach.name is not None:
        return State.UP
    if lives:
        return State.BUSY
    return State.AWAY if reach is not None and reach.refused else State.SILENT
