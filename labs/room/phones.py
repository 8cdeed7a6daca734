"""What phones can ask for: the page, to join, the state, a bet, and to buy. The network reaches nothing else."""

from __future__ import annotations

import hmac
import json
import re
from pathlib import Path
from typing import Any

from flask import Blueprint, Flask, Response, current_app, request, send_from_directory
from werkzeug.exceptions import UnsupportedMediaType

from app.web import access, error_handlers
from app.web.params import Parameters
from app.web.responses import json_response, problem_response
from labs.room.bounds import RateLimits, client_of
from labs.room.buying import Buying
from labs.room.crowd import MOST_PHONES, MOST_ROBOTS, Crowd, RoomBuyer, RoomRefused
from labs.room.settings import RoomSettings
from labs.room.states import to_phone

STATIC = Path(__file__).parent / "static"
TEXTS: dict[str, dict[str, Any]] = json.loads((STATIC / "phone-texts.json").read_text(encoding="utf-8"))
FILES = ("phone.css", "phone.js", "icon.svg")
COOKIE = "room"
ANSWER_S = 4.0  # that a phone waits for the answer to its click; then it asks for the state
MOST_SALES = 1_000_000
KEY = re.compile(r"[A-Za-z0-9-]{8,64}")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


phones = Blueprint("phones", __name__)


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


@phones.before_app_request
def check() -> None:
    """Bound what an address and a phone ask for, and refuse the forms of other sites."""
    room, phone = of_room(), find_phone()
    address = client_of(str(request.remote_addr))
    if not room.of_address.allows(address) or (phone and not room.of_phone.allows(phone.id)):
        raise RoomRefused(429, "slow_down", "Too many requests: wait a moment.")
    # A form of another site can send texts and forms without asking first, but no JSON.
    if request.method == "POST" and not request.is_json:
        raise UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'.")


@phones.after_app_request
def protect(response: Response) -> Response:
    """Add the headers of every response."""
    response.headers.update(HEADERS)
    if response.status_code == 429:
        response.headers["Retry-After"] = "1"
    return response


def find_phone() -> RoomBuyer | None:
    """The phone that sends this request, if it has joined."""
    return of_room().crowd.find(request.cookies.get(COOKIE, ""))


def the_phone() -> RoomBuyer:
    """The phone that sends this request; raises RoomRefused unless it has joined."""
    if phone := find_phone():
        return phone
    raise RoomRefused(401, "unknown_phone", "Join the room first.")


@phones.get("/")
def page() -> Response:
    """The page, in the phone's language."""
    text = (STATIC / "phone.html").read_text(encoding="utf-8").replace("{language}", asked_language())
    response = Response(text, content_type="text/html; charset=utf-8")
    response.headers.update({"Cache-Control": "no-store", "Vary": "Accept-Language"})
    return response


@phones.get("/static/<name>")
def file(name: str) -> Response:
    """One of the page's files."""
    return send_from_directory(STATIC, name if name in FILES else "-", max_age=0)


@phones.get("/texts/<language>.js")
def texts(language: str) -> Response:
    """The page's texts as a script."""
    found = json.dumps(TEXTS[language if language in TEXTS else "en"], ensure_ascii=False)
    return Response(f"var TEXTS = {found};\n", content_type="text/javascript; charset=utf-8")


@phones.get("/livez")
def livez() -> Response:
    """Answer at once."""
    return json_response({"status": "alive"})


@phones.post("/join")
def join() -> Response:
    """Join with a name, and with the PIN if there is one."""
    room, asked = of_room(), Parameters(request, "name", "pin")
    address = client_of(str(request.remote_addr))
    if room.settings.pin:
        check_pin(room, asked.text("pin", "-"), address)
    phone = room.crowd.join(asked.text("name", "-"), address)
    response = json_response(to_phone(room.crowd, phone))
    response.set_cookie(COOKIE, phone.id, httponly=True, samesite="Strict", max_age=86_400)
    return response


def check_pin(room: RoomParts, pin: str, address: str) -> None:
    """Raise RoomRefused unless it is the PIN; wrong ones are bounded for each address and for all."""
    # Not for each phone, which has nothing to be known by yet: a router's other phones have tries left.
    if not (room.wrong_of_address.allows(address, cost=0) and room.wrong_of_all.allows("", cost=0)):
        raise RoomRefused(429, "slow_down", "Too many wrong tries: wait a few seconds.")
    if not hmac.compare_digest(pin.encode(), str(room.settings.pin).encode()):
        room.wrong_of_address.allows(address)
        room.wrong_of_all.allows("")
        raise RoomRefused(403, "wrong_pin", "The PIN is on the board.")


@phones.get("/state")
def state() -> Response:
    """The state as this phone sees it."""
    room = of_room()
    return json_response(to_phone(room.crowd, find_phone(), needs_pin=bool(room.settings.pin)))


@phones.post("/bet")
def bet() -> Response:
    """Bet how many items will be sold."""
    crowd, phone = of_room().crowd, the_phone()
    crowd.bet(phone, Parameters(request, "bet").whole("bet", -1, most=MOST_PHONES + MOST_ROBOTS))
    return json_response(to_phone(crowd, phone))


@phones.post("/buy")
def buy() -> Response:
    """Buy one item in this sale. A phone that repeats it, with any key, gets the state of its one purchase."""
    room, phone, key = of_room(), the_phone(), request.headers.get("Idempotency-Key", "")
    if not KEY.fullmatch(key):
        raise RoomRefused(400, "bad_key", "Send an Idempotency-Key of 8 to 64 letters, digits and dashes.")
    sale = Parameters(request, "sale").whole("sale", 0, most=MOST_SALES)
    click, is_first = room.crowd.click(phone, key, sale)
    if is_first:
        room.buying.start(click)
    click.settled.wait(ANSWER_S)
    return json_response(to_phone(room.crowd, phone))


def create_phones(room: RoomParts) -> Flask:
    """The application for the network."""
    app = room_app("labs.room.phones", room, addresses="Open the page at /.")
    access.init_app(app, names=frozenset({room.settings.host}), setting="--address")
    app.register_blueprint(phones)
    return app


def asked_language() -> str:
    """The language of the address (``?language=zh``), or else of the browser."""
    asked = request.args.get("language", "")
    return asked if asked in TEXTS else str(request.accept_languages.best_match(list(TEXTS), "en"))
