"""The room's server: one crowd, the phones' application for the network, and the stage's for a socket file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Blueprint, Flask, Response, request

from app.config.settings import MOST_ITEMS
from app.guards import guards
from app.web.params import Parameters
from app.web.responses import json_response
from app.web.routes import LONGEST_HOLD_MS
from labs.room.crowd import MOST_ROBOTS, Crowd
from labs.room.parts import RoomParts, of_room, room_app
from labs.room.phones import create_phones
from labs.room.settings import RoomSettings
from labs.room.states import to_board

END_S = 15.0
LONGEST_WAIT_MS = 600_000
WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

stage = Blueprint("stage", __name__)


def create_room(settings: RoomSettings | None = None) -> WSGI:
    """Both applications as one; which one serves a request depends on the socket by which it came."""
    settings = settings or RoomSettings.from_environment()
    parts = RoomParts(settings, Crowd())
    of_phones, of_stage = create_phones(parts), create_stage(parts)

    def room(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # No request from the network is without an address, and none can change it.
        application = of_phones if environ.get("REMOTE_ADDR") else of_stage
        return application(environ, start_response)

    return room


def create_stage(room: RoomParts) -> Flask:
    """The application for the board of this machine."""
    app = room_app("labs.room.stage", room)
    app.register_blueprint(stage)
    return app


@stage.get("/state")
def state() -> Response:
    """The crowd for the board's page."""
    return json_response(to_board(of_room().crowd))


@stage.post("/end")
def end() -> Response:
    """End the sale: until the next one begins, nothing is bought."""
    of_room().crowd.end_sale(timeout=END_S)
    return json_response({})


@stage.post("/begin")
def begin() -> Response:
    """Begin the sale that the shop has scheduled or opened."""
    asked = Parameters(request, "guard", "hold_ms", "stock", "opens_in_ms", "buyers")
    sale = of_room().crowd.begin_sale(
        guard=asked.choice("guard", "none", [*guards()]),
        hold_ms=asked.whole("hold_ms", 0, most=LONGEST_HOLD_MS),
        stock=asked.whole("stock", 300, most=MOST_ITEMS),
        opens_in_s=asked.whole("opens_in_ms", 0, most=LONGEST_WAIT_MS) / 1000,
        buyers=asked.whole("buyers", 0, most=MOST_ROBOTS),
    )
    of_room().buying.start_robots(sale)
    return json_response({"robots": sale.robots})


@stage.post("/remove")
def remove() -> Response:
    """Send a phone out of the room."""
    return json_response({"removed": of_room().crowd.remove(Parameters(request, "name").text("name", "-"))})
