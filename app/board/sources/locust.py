"""Locust's page: asked over HTTP for its state, and to start a rush."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

TIMEOUT = 1.0
UNREACHABLE = (OSError, HTTPException, ValueError, LookupError, TypeError)  # no answer, or one that is not Locust's
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SLOW = "slow"  # it takes connections, and does not answer in time: its buyers keep it busy
RUNNING = ("spawning", "running", "stopping", "cleanup", SLOW)


class RushRunning(Exception):
    """A rush runs already, or Locust refused to start one; the message says which."""


@dataclass(frozen=True)
class LocustStatus:
    """What Locust tells of itself.

    Attributes:
        state: "ready", "stopped" or "missing", or one of `RUNNING`.
        here: buyers that have come to the barrier, or of a Locust that does not tell that, those that it has made.
        notice: what the rush waits for, or why it has no verdict.
    """

    state: str
    here: int = 0
    notice: str = ""

    @property
    def is_running(self) -> bool:
        return self.state in RUNNING


class RushClient:
    """Speaks to the Locust whose page is at `url`; every call has a deadline and may raise one of `UNREACHABLE`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def require_idle(self) -> None:
        """Raise RushRunning while a rush is running."""
        if self.status().is_running:
            raise RushRunning("A rush is running already: wait for its end, or stop it in Locust's page.")

    def status(self) -> LocustStatus:
        try:
            response = self._ask("/stats/requests")
        except OSError as error:
            if isinstance(getattr(error, "reason", error), TimeoutError):
                return LocustStatus(SLOW)
            raise
        rows = [row for table in response.get("extended_stats", ()) for row in table["data"]]
        notice = next((row["verdict"] for row in rows if "guard" not in row), "")
        here = response.get("arrived", response.get("user_count", 0))
        return LocustStatus(str(response["state"]), int(here), str(notice))

    def start(self, *, guard: str, buyers: int, stock: int, hold_ms: int) -> None:
        """Start a rush; raises RushRunning if Locust refuses."""
        users = {"user_count": buyers, "spawn_rate": buyers}
        form = {**users, "guards": guard, "stock": stock, "hold_ms": hold_ms}
        try:
            answer = self._ask("/swarm", urllib.parse.urlencode(form).encode())
        except TimeoutError:  # it has the form; what comes of it, its state will tell
            return
        if not answer.get("success"):
            raise RushRunning(f"Locust did not start: {answer.get('message')}")

    def _ask(self, path: str, data: bytes | None = None) -> dict[str, Any]:
        with DIRECT.open(self.url + path, data, timeout=TIMEOUT) as response:
            answer: dict[str, Any] = json.load(response)
        return answer
