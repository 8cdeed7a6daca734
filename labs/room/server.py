"""The room's server: one crowd, the phones' application for the network, and the stage's for a socket file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask, Response, request

from app.config.settings import MOST_ITEMS
from app.guards import guards
from app.web import error_handlers
from app.web.params import Parameters
from app.web.responses import json_response, problem_response
from app.web.routes import LONGEST_HOLD_MS
from labs.room.buying import Buying
from labs.room.crowd import MOST_ROBOTS, Crowd, RoomRefused
from labs.room.phones import create_phones
from labs.room.settings import RoomSettings

END_S = 15.0
LONGEST_WAIT_MS = 600_000
WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def create_room(settings: RoomSettings | None = None) -> WSGI:
    """Both applications as one; which one serves a request depends on the socket by which it came."""
    settings = settings or RoomSettings.from_environment()
    crowd = Crowd()
    buying = Buying(crowd, settings.instances)
    phones, stage = create_phones(settings, crowd, buying), create_stage(crowd, buying)

    def room(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # No request from the network is without an address, and none can change it.
        application = phones if environ.get("REMOTE_ADDR") else stage
        return application(environ, start_response)

    return room


def create_stage(crowd: Crowd, buying: Buying) -> Flask:
    """The application for the board of this machine."""
    app = Flask("labs.room.stage", static_folder=None)
    app.config["INSTANCE"] = "room"
    error_handlers.init_app(app)

    @app.errorhandler(RoomRefused)
    def refused(error: RoomRefused) -> Response:
        return problem_response(error.status, str(error), kind=error.kind)

    @app.get("/state")
    def state() -> Response:
        return json_response(shown_on_board(crowd))

    @app.post("/end")
    def end() -> Response:
        """End the sale: until the next one begins, nothing is bought."""
        crowd.end_sale(timeout=END_S)
        return json_response({})

    @app.post("/begin")
    def begin() -> Response:
        """Begin the sale that the shop has scheduled or opened."""
        asked = Parameters(request, "guard", "hold_ms", "stock", "opens_in_ms", "buyers")
        sale = crowd.begin_sale(
            guard=asked.choice("guard", "none", [*guards()]),
            hold_ms=asked.whole("hold_ms", 0, most=LONGEST_HOLD_MS),
            stock=asked.whole("stock", 300, most=MOST_ITEMS),
            opens_in_s=asked.whole("opens_in_ms", 0, most=LONGEST_WAIT_MS) / 1000,
            buyers=asked.whole("buyers", 0, most=MOST_ROBOTS),
        )
        buying.start_robots(sale)
        return json_response({"robots": sale.robots})

    @app.post("/remove")
    def remove() -> Response:
        """Send a phone out of the room."""
        return json_response({"removed": crowd.remove(Parameters(request, "name").text("name", "-"))})

    return app


def shown_on_board(crowd: Crowd) -> dict[str, Any]:
    """The crowd for the board's page."""
    sale, phones, clicks = crowd.sale, crowd.phones, crowd.clicks()
    clashes = [
        {
            "number": number,
            "names": [each.name for each in buyers if not each.is_robot],
            "robots": sum(each.is_robot for each in buyers),
        }
        for number, buyers in crowd.clashes()
    ]
    told: dict[str, Any] = {
        "phase": crowd.phase.value,
        "names": [each.name for each in phones],
        "bets": [{"name": each.name, "bet": each.bet} for each in phones if each.bet is not None],
        "clicks": len(clicks),
        "pending": sum(each.bought is None for each in clicks),
        "clashes": clashes,
        "sale": None,
    }
    if sale:
        told["sale"] = {
            "number": sale.number,
            "guard": sale.guard,
            "hold_ms": sale.hold_ms,
            "stock": sale.stock,
            "robots": sale.robots,
            "opens_in_ms": round(max(sale.opens_in_s, 0.0) * 1000),
        }
    return told
