"""The room's server: one crowd, the phones' application for the network, and the stage's for a socket file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Blueprint, Flask, Response, request

from app.web.responses import json_response
from labs.room.crowd import Crowd
from labs.room.phones import RoomParts, create_phones, of_room, room_app
from labs.room.settings import RoomSettings
from labs.room.states import to_board

END_S = 15.0
WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

stage = Blueprint("stage", __name__)


def create_room() -> WSGI:
    """Both applications as one; which one serves a request depends on the socket by which it came."""
    parts = RoomParts(RoomSettings.from_environment(), Crowd())
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
    """Begin the sale that the shop has scheduled or opened; the board has checked what was asked for."""
    of_room().buying.start_robots(of_room().crowd.begin_sale(**request.get_json()))
    return json_response({})


@stage.post("/remove")
def remove() -> Response:
    """Send a phone out of the room."""
    of_room().crowd.remove(request.get_json()["name"])
    return json_response({})
