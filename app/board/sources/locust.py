"""Locust's page: asked over HTTP for its state, and to start a rush."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Any

TIMEOUT = 1.0
UNREACHABLE = (OSError, HTTPException, ValueError, LookupError, TypeError)  # no answer, or one that is not Locust's
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class LocustBusy(Exception):
    """A rush runs already, or Locust refused to start one; the message says which."""


class Locust:
    """Speaks to the Locust whose page is at `url`; every call has a deadline and may raise one of `UNREACHABLE`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def require_idle(self) -> None:
        """Raise LocustBusy while a rush is running."""
        if self.state() in ("spawning", "running", "stopping", "cleanup"):
            raise LocustBusy("A rush is running already: wait for its end, or stop it in Locust's page.")

    def state(self) -> str:
        """One of "ready", "spawning", "running", "cleanup", "stopping", "stopped" and "missing"."""
        return str(self._ask("/stats/requests")["state"])

    def start(self, *, guards: list[str], buyers: int, stock: int, hold_ms: int) -> None:
        """Start a rush under each of `guards` in turn.

        Raises:
            LocustBusy: it was not started.
        """
        self.require_idle()
        users = {"user_count": buyers, "spawn_rate": buyers}
        form = {**users, "guards": ",".join(guards), "stock": stock, "hold_ms": hold_ms, "opens_in": 0}
        answer = self._ask("/swarm", urllib.parse.urlencode(form).encode())
        if not answer.get("success"):
            raise LocustBusy(f"Locust did not start: {answer.get('message')}")

    def _ask(self, path: str, data: bytes | None = None) -> dict[str, Any]:
        with DIRECT.open(self.url + path, data, timeout=TIMEOUT) as response:
            answer: dict[str, Any] = json.load(response)
        return answer
