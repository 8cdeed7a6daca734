"""The room on the board: the QR code, the bets, the sale that the stage begins, and who holds the same number."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, Response, current_app, request
from werkzeug.exceptions import NotFound

from app.board import parts
from app.board.parts import BoardParts
from app.board.settings import BoardSettings
from app.board.web.pages import add_page
from app.board.web.security import authorize
from app.config.settings import MOST_ITEMS
from app.guards import guards
from app.web.params import Parameters
from app.web.responses import json_response
from app.web.routes import LONGEST_HOLD_MS
from labs.room.crowd import MOST_ROBOTS, PHONE
from labs.room.settings import RoomSettings
from labs.room.stage_client import StageClient

# `None` for no link: this stack has no room.
LINK = {"path": "/room", "text": {"en": "The room buys", "zh": "全场抢购"}} if RoomSettings.is_set() else None
STATIC = Path(__file__).with_name("static")
NO_ROOM = "No phones can reach this stack: stop it, and start it with make up ARGS=--room."
MOST_BARS = 3000
LONGEST_COUNTDOWN_S = 600
HOLD_MS = 20

room = Blueprint("room", __name__, url_prefix="/room")


def the_stage() -> StageClient:
    """The one of this board; raises NotFound if it has no room."""
    stage: StageClient | None = current_app.extensions["stage"]
    if stage is None:
        raise NotFound(NO_ROOM)
    return stage


@room.get("/setup")
def setup() -> Response:
    """What does not change: the address, the PIN, and what the stage can choose."""
    settings = parts.of_board().settings
    stage: StageClient | None = current_app.extensions["stage"]
    return json_response(
        {
            "url": stage and stage.room.url,
            "address": stage and stage.room.address,
            "pin": stage and stage.room.pin,
            "guards": [*guards()],
            "stock": settings.shop.stock,
            "can_schedule": importlib.util.find_spec("labs.opening") is not None,
            "token_needed": not settings.on_loopback or settings.shop.admin_token is not None,
        }
    )


@room.get("/code.svg")
def code() -> Response:
    """The address as a QR code."""
    import segno  # an image of the shop alone has no room, and does not need it

    drawn, code = io.BytesIO(), segno.make_qr(the_stage().room.url, error="m")
    code.save(drawn, kind="svg", border=2, dark="#000", light="#fff", omitsize=True)
    return Response(drawn.getvalue(), content_type="image/svg+xml")


@room.get("/state")
def state() -> Response:
    """The crowd, the sale, and the critical sections of each instance."""
    crowd = the_stage().ask("/state")
    shop = parts.of_board().sampler.snapshot()[1]
    return json_response({**crowd, "shop": shop["sale"], "lanes": lanes(shop["sections"])})


@room.post("/begin")
def begin() -> Response:
    """Begin a sale: at once, or in some seconds."""
    settings = parts.of_board().settings
    authorize(settings)
    asked = Parameters(request, "guard", "hold_ms", "stock", "opens_in_s", "buyers")
    sale = {
        "guard": asked.choice("guard", "none", [*guards()]),
        "hold_ms": asked.whole("hold_ms", HOLD_MS, most=LONGEST_HOLD_MS),
        "stock": asked.whole("stock", settings.shop.stock, most=MOST_ITEMS),
        "buyers": asked.whole("buyers", 0, most=MOST_ROBOTS),
    }
    the_stage().begin(sale, opens_in_s=asked.whole("opens_in_s", 0, most=LONGEST_COUNTDOWN_S))
    return json_response({"done": "The sale begins."})


@room.post("/end")
def end() -> Response:
    """End the sale: the board shows the code again, and phones bet on the next one."""
    authorize(parts.of_board().settings)
    the_stage().end()
    return json_response({"done": "The sale is over."})


@room.post("/remove")
def remove() -> Response:
    """Send a phone out of the room."""
    authorize(parts.of_board().settings)
    the_stage().ask("/remove", {"name": Parameters(request, "name").text("name", "")})
    return json_response({"done": "The phone is out of the room."})


def init_app(app: Flask, settings: BoardSettings) -> None:
    """Register the page and its routes."""
    board: BoardParts = app.extensions["board"]
    own = RoomSettings.from_environment() if RoomSettings.is_set() else None
    app.extensions["stage"] = own and StageClient(own, settings, board.locust)
    add_page(app, "/room", STATIC / "room.html")
    app.register_blueprint(room)


def lanes(sections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each instance its critical sections as ``[begin, end, is a phone's]``, in milliseconds since the reset."""
    by_instance: dict[str, list[list[Any]]] = {}
    for each in sections[-MOST_BARS:]:
        own = by_instance.setdefault(each["instance"], [])
        own.append([each["entered_ms"], each["left_ms"], each["buyer"].startswith(PHONE)])
    return [{"name": name, "bars": by_instance[name]} for name in sorted(by_instance)]
