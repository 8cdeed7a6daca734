"""The instances: where they are, and whether each answers, is busy, frozen or down."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from app.board.sources.heartbeats import WorkerStatus
from app.board.sources.locust import DIRECT
from app.board.sources.poller import Poller
from app.board.sources.stack_client import StackClient

TIMEOUT = 0.8
EVERY_S = 1.0
FIND_S = 2.0


class State(str, Enum):
    """The state of an instance, as the board sees it."""

    UP = "up"
    BUSY = "busy"  # it lives, but no thread is free to answer
    SILENT = "silent"  # it takes connections, but neither answers nor sends heartbeats
    FROZEN = "frozen"  # stopped by a signal
    DOWN = "down"  # it takes no connections


MAY_GO_ON = (State.FROZEN, State.SILENT)  # a process without heartbeats may still answer what it has in hand


@dataclass(frozen=True)
class Reach:
    """The name of an instance, if it answered, and whether it refuses connections."""

    name: str | None
    refused: bool = False


def ask_livez(url: str) -> Reach:
    """Ask the instance at `url` for its name, for at most `TIMEOUT` seconds."""
    try:
        with DIRECT.open(f"{url}/livez", timeout=TIMEOUT) as response:
            return Reach(str(json.load(response)["instance"]))
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException) as error:
        return Reach(None, refused=isinstance(getattr(error, "reason", None), ConnectionRefusedError | socket.gaierror))


def find(urls: Sequence[str]) -> list[str]:
    """The base URLs of the instances: ``dns+http://NAME:PORT`` is one for each address that the name has now.

    They are asked for by their addresses, which every instance serves: no name need be known to it. The rush finds them
    by the same rule (`loadtest.target.shops.find`). Raises OSError.
    """
    found = [each for url in urls for each in (_addresses(url) if url.startswith("dns+") else [url])]
    return list(dict.fromkeys(found))


def _addresses(url: str) -> list[str]:
    name = urlsplit(url)
    port = name.port or 80
    answers = socket.getaddrinfo(name.hostname, port, type=socket.SOCK_STREAM)
    hosts = sorted(str(address[0]) for *_, address in answers)
    return [f"http://{f'[{host}]' if ':' in host else host}:{port}" for host in hosts]


class Instances:
    """Watches all instances, each in its own thread; `start` it, and `close` it. One thread looks at it."""

    def __init__(self, urls: tuple[str, ...], stack: StackClient | None) -> None:
        self._found = Poller("find", lambda: find(urls), errors=(OSError,), every_s=FIND_S)
        self._states = Poller("stack", stack.states, errors=(OSError, ValueError), every_s=0.5) if stack else None
        self._reach: dict[str, Poller[Reach]] = {}
        self._names: dict[str, str] = {}
        self._pollers: list[Poller[Any]] = [self._found, *([self._states] if self._states else [])]

    def start(self) -> None:
        """Begin to look for them."""
        for poller in self._pollers:
            poller.start()

    def close(self) -> None:
        """Ask no more; the threads end with the questions that they have asked."""
        for poller in [*self._pollers, *self._reach.values()]:
            poller.close()

    def join(self) -> None:
        """Wait until the threads have ended."""
        for poller in [*self._pollers, *self._reach.values()]:
            poller.join()

    def look(self, living: Sequence[WorkerStatus], *, since_ns: int = 0) -> list[dict[str, Any]]:
        """All instances as the page shows them; `living` are heartbeats, and its times count from `since_ns`."""
        urls = self._found.latest.value
        if urls is not None:  # or else those that were there before
            self._follow(urls)
        return [self._look(url, poller.latest.value, living, since_ns) for url, poller in self._reach.items()]

    def _follow(self, urls: Sequence[str]) -> None:
        """Watch these instances, and no others."""
        for gone in self._reach.keys() - urls:
            self._reach.pop(gone).close()
        for url in (url for url in urls if url not in self._reach):
            ask = partial(ask_livez, url)
            self._reach[url] = Poller(f"livez {url}", ask, errors=(), every_s=EVERY_S)
            self._reach[url].start()

    def _look(self, url: str, reach: Reach | None, living: Sequence[WorkerStatus], since_ns: int) -> dict[str, Any]:
        if reach is not None and reach.name is not None:
            self._names[url] = reach.name
        name = self._names.get(url, url.rpartition("//")[2])
        own = [beat for beat in living if beat.instance == name]
        states = (self._states.latest.value if self._states else None) or {}
        return {
            "name": name,
            "url": url,
            "state": _state(reach, own, states.get(name)),
            "workers": [{"pid": beat.pid, "began_ms": (beat.began - since_ns) / 1e6} for beat in own],
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
