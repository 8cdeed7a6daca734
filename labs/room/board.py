"""The room on the board: the QR code, the bets, the sale that the stage begins, and who holds the same number.

It runs in the board's process, asks the room's server through a socket file, and opens the sale at an instance.
"""

from __future__ import annotations

import http.client
import importlib.util
import io
import json
import socket
import urllib.request
from collections.abc import Mapping
from contextlib import closing, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from flask import Flask, Response, request
from werkzeug.exceptions import NotFound

from app.board.live.sampler import Sampler
from app.board.settings import BoardSettings
from app.board.sources.instances import find
from app.board.sources.locust import DIRECT, UNREACHABLE, RushClient
from app.board.web.pages import add_page
from app.board.web.security import authorize
from app.config.settings import MOST_ITEMS
from app.guards import guards
from app.web.params import Parameters
from app.web.responses import json_response, problem_response
from app.web.routes import LONGEST_HOLD_MS
from labs.room.crowd import MOST_ROBOTS, PHONE
from labs.room.server import END_S
from labs.room.settings import RoomSettings

# Only where there is a room.
LINK = {"path": "/room", "text": {"en": "The room buys", "zh": "全场抢购"}} if RoomSettings.is_set() else None
STATIC = Path(__file__).with_name("static")
TIMEOUT = 2.0
NO_ROOM = "No phones can reach this stack: stop it, and start it with make up ARGS=--room."
MOST_BARS = 3000
LONGEST_COUNTDOWN_S = 600
HOLD_MS = 20


class StageRefused(Exception):
    """The room or an instance refused, or did not answer; status and message are for the page."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _SocketFile(http.client.HTTPConnection):
    """HTTP over a socket file."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("room", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class StageClient:
    """Speaks to the room's server and to the shop; every call has a deadline and may raise StageRefused."""

    def __init__(self, room: RoomSettings, settings: BoardSettings, locust: RushClient) -> None:
        self._room, self._settings, self._locust = room, settings, locust

    def state(self) -> dict[str, Any]:
        """The crowd, see `labs.room.server.shown_on_board`."""
        return self._ask_room("/state")

    def begin(self, *, guard: str, hold_ms: int, stock: int, opens_in_s: int, buyers: int) -> None:
        """End the sale before, and begin the next: at once, or when the shop opens it."""
        with suppress(*UNREACHABLE):  # without Locust no rush is running
            self._locust.require_idle()
        self.end()
        opens_in_ms = 0
        if opens_in_s:
            told = self._ask_shop("/sale/schedule", {"stock": stock, "opens_in_s": opens_in_s})
            opens_in_ms = round(told["opens_in_s"] * 1000)
        else:
            self._ask_shop("/stock/reset", {"stock": stock})
        sale = {"guard": guard, "hold_ms": hold_ms, "stock": stock, "buyers": buyers}
        self._ask_room("/begin", {**sale, "opens_in_ms": opens_in_ms})

    def end(self) -> None:
        """End the sale; phones bet on the next one."""
        self._ask_room("/end", {}, timeout=END_S + TIMEOUT)

    def remove(self, name: str) -> None:
        """Send a phone out of the room."""
        self._ask_room("/remove", {"name": name})

    def _ask_room(
        self, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = TIMEOUT
    ) -> dict[str, Any]:
        try:
            with closing(_SocketFile(self._room.stage, timeout)) as connection:
                data = None if body is None else json.dumps(body)
                connection.request("POST" if data else "GET", path, data, {"Content-Type": "application/json"})
                response = connection.getresponse()
                told: dict[str, Any] = json.load(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            message = f"The room's server does not answer ({error}): start the stack again."
            raise StageRefused(HTTPStatus.SERVICE_UNAVAILABLE, message) from error
        if response.status != HTTPStatus.OK:
            raise StageRefused(response.status, str(told.get("detail")))
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
                    raise StageRefused(
                        error.code, f"The shop refused: {error.read(2000).decode(errors='replace')}"
                    ) from error
            except UNREACHABLE:
                continue  # it may be frozen
        raise StageRefused(HTTPStatus.SERVICE_UNAVAILABLE, "No instance answers: thaw or start one.")


def init_app(app: Flask, settings: BoardSettings) -> None:
    """Register the page and its routes."""
    room = RoomSettings.from_environment() if RoomSettings.is_set() else None
    sampler: Sampler = app.extensions["sampler"]
    stage = StageClient(room, settings, app.extensions["locust"]) if room else None

    def the_stage() -> StageClient:
        if stage is None:
            raise NotFound(NO_ROOM)
        return stage

    @app.errorhandler(StageRefused)
    def refused(error: StageRefused) -> Response:
        return problem_response(error.status, str(error))

    add_page(app, "/room", STATIC / "room.html")

    @app.get("/room/setup")
    def room_setup() -> Response:
        """What does not change: the address, the PIN, and what the stage can choose."""
        return json_response(
            {
                "url": room.url if room else None,
                "address": room.address if room else None,
                "pin": room.pin if room else None,
                "guards": [*guards()],
                "stock": settings.shop.stock,
                "can_schedule": importlib.util.find_spec("labs.opening") is not None,
                "token_needed": not settings.on_loopback or settings.shop.admin_token is not None,
            }
        )

    @app.get("/room/code.svg")
    def room_code() -> Response:
        """The address as a QR code."""
        import segno  # an image of the shop alone has no room, and does not need it

        if room is None:
            raise NotFound(NO_ROOM)
        drawn = io.BytesIO()
        segno.make_qr(room.url, error="m").save(drawn, kind="svg", border=2, dark="#000", light="#fff", omitsize=True)
        return Response(drawn.getvalue(), content_type="image/svg+xml")

    @app.get("/room/state")
    def room_state() -> Response:
        told = the_stage().state()
        seen = sampler.snapshot()[1]
        return json_response({**told, "shop": seen["sale"], "lanes": lanes(seen["sections"])})

    @app.post("/room/begin")
    def begin_room() -> Response:
        """Begin a sale: at once, or in some seconds."""
        authorize(settings)
        asked = Parameters(request, "guard", "hold_ms", "stock", "opens_in_s", "buyers")
        the_stage().begin(
            guard=asked.choice("guard", "none", [*guards()]),
            hold_ms=asked.whole("hold_ms", HOLD_MS, most=LONGEST_HOLD_MS),
            stock=asked.whole("stock", settings.shop.stock, most=MOST_ITEMS),
            opens_in_s=asked.whole("opens_in_s", 0, most=LONGEST_COUNTDOWN_S),
            buyers=asked.whole("buyers", 0, most=MOST_ROBOTS),
        )
        return json_response({"done": "The sale begins."})

    @app.post("/room/end")
    def end_room() -> Response:
        """End the sale: the board shows the code again, and phones bet on the next one."""
        authorize(settings)
        the_stage().end()
        return json_response({"done": "The sale is over."})

    @app.post("/room/remove")
    def remove_phone() -> Response:
        """Send a phone out of the room."""
        authorize(settings)
        the_stage().remove(Parameters(request, "name").text("name", ""))
        return json_response({"done": "The phone is out of the room."})


def lanes(sections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each instance its critical sections as ``[begin, end, is a phone's]``, in milliseconds since the reset."""
    by_instance: dict[str, list[list[Any]]] = {}
    for each in sections[-MOST_BARS:]:
        own = by_instance.setdefault(each["instance"], [])
        own.append([each["entered_ms"], each["left_ms"], each["buyer"].startswith(PHONE)])
    return [{"name": name, "bars": by_instance[name]} for name in sorted(by_instance)]
