"""What the board asks of the room's server, through a socket file, and of the shop."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.request
from collections.abc import Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from typing import Any
from urllib.error import HTTPError

from werkzeug.exceptions import ServiceUnavailable, abort

from app.board.settings import BoardSettings
from app.board.sources.instances import find
from app.board.sources.locust import DIRECT, UNREACHABLE, RushClient
from labs.room.server import END_S
from labs.room.settings import RoomSettings

TIMEOUT = 2.0


class StageClient:
    """Speaks to the room's server and to the shop; a call has a deadline, and may raise an HTTPException."""

    def __init__(self, room: RoomSettings, settings: BoardSettings, locust: RushClient) -> None:
        self.room, self._settings, self._locust = room, settings, locust

    def begin(self, sale: Mapping[str, Any], *, opens_in_s: int) -> None:
        """End the sale before, and begin the next: at once, or when the shop opens it."""
        with suppress(*UNREACHABLE):  # without Locust no rush is running
            self._locust.require_idle()
        self.end()
        left_s = 0.0
        if opens_in_s:
            scheduled = {"stock": sale["stock"], "opens_in_s": opens_in_s}
            left_s = self._ask_shop("/sale/schedule", scheduled)["opens_in_s"]
        else:
            self._ask_shop("/stock/reset", {"stock": sale["stock"]})
        self.ask("/begin", {**sale, "opens_in_s": left_s})

    def end(self) -> None:
        """End the sale; phones bet on the next one."""
        self.ask("/end", {}, timeout=END_S + TIMEOUT)

    def ask(self, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = TIMEOUT) -> dict[str, Any]:
        """What the room's server answers, see `labs.room.server`; POST if there is a body."""
        try:
            with closing(http.client.HTTPConnection("room")) as connection:
                connection.sock = socket.socket(socket.AF_UNIX)  # by HTTP, but to a file
                connection.sock.settimeout(timeout)
                connection.sock.connect(str(self.room.stage))
                data = None if body is None else json.dumps(body)
                connection.request("POST" if data else "GET", path, data, {"Content-Type": "application/json"})
                response = connection.getresponse()
                told: dict[str, Any] = json.load(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServiceUnavailable(f"The room's server does not answer ({error}): start the stack again.") from error
        if response.status != HTTPStatus.OK:
            abort(response.status, told.get("detail"))
        return told

    def _ask_shop(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the first instance says that answers."""
        headers = {"Content-Type": "application/json", **self._settings.shop.authorization}
        for url in find(self._settings.instances):
            asked = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
            try:
                with DIRECT.open(asked, timeout=2 * TIMEOUT) as response:
                    told: dict[str, Any] = json.load(response)
                return told
            except HTTPError as error:
                with error:
                    detail = error.read(2000).decode(errors="replace")
                abort(error.code, f"The shop refused: {detail}")
            except UNREACHABLE:
                continue  # it may be frozen
        raise ServiceUnavailable("No instance answers: thaw or start one.")
