"""What the room's routes work with: one room for the phones' application and the stage's."""

from __future__ import annotations

from flask import Flask, Response, current_app

from app.web import error_handlers
from app.web.responses import problem_response
from labs.room.bounds import RateLimits
from labs.room.buying import Buying
from labs.room.crowd import Crowd, RoomRefused
from labs.room.settings import RoomSettings


class RoomParts:
    """The parts of one room, with the bounds for requests of an address and of a phone, and for wrong PINs."""

    def __init__(self, settings: RoomSettings, crowd: Crowd) -> None:
        self.settings, self.crowd = settings, crowd
        self.buying = Buying(crowd, settings.instances)
        self.of_address, self.of_phone = RateLimits(burst=800, per_s=300), RateLimits(burst=20, per_s=8)
        self.wrong_of_address, self.wrong_of_all = RateLimits(burst=60, per_s=0.1), RateLimits(burst=240, per_s=0.5)


def of_room() -> RoomParts:
    """The parts of the application that serves this request."""
    room: RoomParts = current_app.extensions["room"]
    return room


def room_app(name: str, room: RoomParts, *, addresses: str | None = None) -> Flask:
    """An application of this room, without routes; what the room refuses is a problem."""
    app = Flask(name, static_folder=None)
    app.config["INSTANCE"] = "room"
    app.extensions["room"] = room
    error_handlers.init_app(app, addresses=addresses)
    app.register_error_handler(RoomRefused, _refused)
    return app


def _refused(error: RoomRefused) -> Response:
    return problem_response(error.status, str(error), kind=error.kind)
