"""The instances: where they are, and whether each answers, is busy, frozen or down."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from enum import Enum
from functools import partial
from operator import itemgetter
from typing import Any

from app.board.sources.heartbeats import WorkerStatus
from app.board.sources.locust import DIRECT, UNREACHABLE
from app.board.sources.poller import Poller
from app.board.sources.stack_client import StackClient
from app.contract.addresses import addresses_of

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


_OF_STACK = {"frozen": State.FROZEN, "ended": State.DOWN}  # of the local stack's words, those that say more
MAY_GO_ON = (State.FROZEN, State.SILENT)  # a process without heartbeats may still answer what it has in hand


def ask_livez(url: str) -> tuple[State, str | None]:
    """Ask the instance at `url` for its name, for at most `TIMEOUT` seconds: up, silent or down, and the name."""
    try:
        with DIRECT.open(f"{url}/livez", timeout=TIMEOUT) as response:
            return State.UP, str(json.load(response)["instance"])
    except UNREACHABLE as error:
        refused = isinstance(getattr(error, "reason", None), ConnectionRefusedError | socket.gaierror)
        return State.DOWN if refused else State.SILENT, None


def find(urls: Sequence[str]) -> list[str]:
    """The base URLs of the instances, see `addresses_of`; raises OSError."""
    return list(dict.fromkeys(found for url in urls for found in addresses_of(url)))


class Instances:
    """Watches all instances, each in its own thread; `start` it, and `close` it. One thread looks at it."""

    def __init__(self, urls: tuple[str, ...], stack: StackClient | None) -> None:
        self._found = Poller("find", lambda: find(urls), errors=(OSError,), every_s=FIND_S)
        self._states = Poller("stack", stack.states, errors=(OSError, ValueError), every_s=0.5) if stack else None
        self._answers: dict[str, Poller[tuple[State, str | None]]] = {}
        self._names: dict[str, str] = {}

    def start(self) -> None:
        self._found.start()
        if self._states:
            self._states.start()

    def close(self) -> None:
        """Ask no more; the threads end with the questions that they have asked."""
        for poller in (self._found, self._states, *self._answers.values()):
            if poller:
                poller.close()

    def look(self, living: Sequence[WorkerStatus], *, since_ns: int = 0) -> list[dict[str, Any]]:
        """All instances as the page shows them; `living` are heartbeats, and its times count from `since_ns`.

        They are sorted by name, as in a record, so that an instance has the same colour in both.
        """
        urls = self._found.latest.value
        if urls is not None:  # or else those that were there before
            self._follow(urls)
        return sorted((self._look(url, living, since_ns) for url in self._answers), key=itemgetter("name"))

    def _follow(self, urls: Sequence[str]) -> None:
        """Watch these instances, and no others."""
        for gone in self._answers.keys() - urls:
            self._answers.pop(gone).close()
        for url in (url for url in urls if url not in self._answers):
            self._answers[url] = Poller(f"livez {url}", partial(ask_livez, url), errors=(), every_s=EVERY_S)
            self._answers[url].start()

    def _look(self, url: str, living: Sequence[WorkerStatus], since_ns: int) -> dict[str, Any]:
        state, answered = self._answers[url].latest.value or (State.SILENT, None)
        name = self._names[url] = answered or self._names.get(url, url.rpartition("//")[2])
        own = [beat for beat in living if beat.instance == name]
        known = ((self._states.latest.value if self._states else None) or {}).get(name)
        if known in _OF_STACK:
            state = _OF_STACK[known]
        elif own and state is not State.UP:
            state = State.BUSY
        return {
            "name": name,
            "url": url,
            "state": state,
            "workers": [{"pid": beat.pid, "began_ms": (beat.began - since_ns) / 1e6} for beat in own],
            "threads": sum(beat.threads for beat in own),
            "in_hand": sum(beat.in_hand for beat in own),
            "queued": sum(beat.queued for beat in own) if own else None,
        }
