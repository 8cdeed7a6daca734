"""What phones can ask for: the page, to join, the state, a bet, and to buy. The network reaches nothing else."""

from __future__ import annotations

import hmac
import json
import re
from pathlib import Path
from typing import Any

from flask import Flask, Response, request, send_from_directory
from werkzeug.exceptions import UnsupportedMediaType

from app.contract.outcomes import Outcome
from app.web import access, error_handlers
from app.web.params import Parameters
from app.web.responses import json_response, problem_response
from labs.room.bounds import RateLimits, client_of
from labs.room.buying import Buying
from labs.room.crowd import MOST_PHONES, MOST_ROBOTS, Crowd, RoomBuyer, RoomRefused
from labs.room.settings import RoomSettings

STATIC = Path(__file__).parent / "static"
TEXTS: dict[str, dict[str, Any]] = json.loads((STATIC / "phone-texts.json").read_text(encoding="utf-8"))
FILES = ("phone.css", "phone.js", "icon.svg")
COOKIE = "room"
ANSWER_S = 4.0  # that a phone waits for the answer to its click; then it asks for the state
LEAST_POLL_MS, POLL_MS_OF_A_PHONE = 1000, 8  # a phone asks again after so long; 200 phones about 125 times a second
MOST_SALES = 1_000_000
MOST_NAMES = 12  # of those that hold the same number
KEY = re.compile(r"[A-Za-z0-9-]{8,64}")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def create_phones(settings: RoomSettings, crowd: Crowd, buying: Buying) -> Flask:
    """The application for the network."""
    app = Flask("labs.room.phones", static_folder=None)
    app.config["INSTANCE"] = "room"
    error_handlers.init_app(app, addresses="Open the page at /.")
    access.init_app(app, names=frozenset({settings.host}), setting="--address")
    of_address, of_phone = RateLimits(burst=800, per_s=300), RateLimits(burst=20, per_s=8)
    wrong_of_address, wrong_of_all = RateLimits(burst=60, per_s=0.1), RateLimits(burst=240, per_s=0.5)

    @app.errorhandler(RoomRefused)
    def refused(error: RoomRefused) -> Response:
        return problem_response(error.status, str(error), kind=error.kind)

    @app.before_request
    def check() -> None:
        phone = crowd.find(request.cookies.get(COOKIE, ""))
        if not of_address.allows(client_of(str(request.remote_addr))) or (phone and not of_phone.allows(phone.id)):
            raise RoomRefused(429, "slow_down", "Too many requests: wait a moment.")
        # A form of another site can send texts and forms without asking first, but no JSON.
        if request.method == "POST" and not request.is_json:
            raise UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'.")

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        if response.status_code == 429:
            response.headers["Retry-After"] = "1"
        return response

    def the_phone() -> RoomBuyer:
        if phone := crowd.find(request.cookies.get(COOKIE, "")):
            return phone
        raise RoomRefused(401, "unknown_phone", "Join the room first.")

    @app.get("/")
    def page() -> Response:
        language = asked_language()
        text = (STATIC / "phone.html").read_text(encoding="utf-8").replace("{language}", language)
        response = Response(text, content_type="text/html; charset=utf-8")
        response.headers.update({"Cache-Control": "no-store", "Vary": "Accept-Language"})
        return response

    @app.get("/static/<name>")
    def file(name: str) -> Response:
        return send_from_directory(STATIC, name if name in FILES else "-", max_age=0)

    @app.get("/texts/<language>.js")
    def texts(language: str) -> Response:
        found = json.dumps(TEXTS[language if language in TEXTS else "en"], ensure_ascii=False)
        return Response(f"var TEXTS = {found};\n", content_type="text/javascript; charset=utf-8")

    @app.get("/livez")
    def livez() -> Response:
        return json_response({"status": "alive"})

    @app.post("/join")
    def join() -> Response:
        """Join with a name, and with the PIN if there is one."""
        asked = Parameters(request, "name", "pin")
        address = client_of(str(request.remote_addr))
        if settings.pin:
            # Not for each phone, which has nothing to be known by yet: a router's other phones have tries left.
            if not (wrong_of_address.allows(address, cost=0) and wrong_of_all.allows("", cost=0)):
                raise RoomRefused(429, "slow_down", "Too many wrong tries: wait a few seconds.")
            if not hmac.compare_digest(asked.text("pin", "-").encode(), settings.pin.encode()):
                wrong_of_address.allows(address)
                wrong_of_all.allows("")
                raise RoomRefused(403, "wrong_pin", "The PIN is on the board.")
        phone = crowd.join(asked.text("name", "-"), address)
        response = json_response(shown(crowd, phone))
        response.set_cookie(COOKIE, phone.id, httponly=True, samesite="Strict", max_age=86_400)
        return response

    @app.get("/state")
    def state() -> Response:
        return json_response(shown(crowd, crowd.find(request.cookies.get(COOKIE, "")), needs_pin=bool(settings.pin)))

    @app.post("/bet")
    def bet() -> Response:
        """Bet how many items will be sold."""
        phone = the_phone()
        crowd.bet(phone, Parameters(request, "bet").whole("bet", -1, most=MOST_PHONES + MOST_ROBOTS))
        return json_response(shown(crowd, phone))

    @app.post("/buy")
    def buy() -> Response:
        """Buy one item in this sale. A phone that repeats it, with any key, gets the state of its one purchase."""
        phone, key = the_phone(), request.headers.get("Idempotency-Key", "")
        if not KEY.fullmatch(key):
            raise RoomRefused(400, "bad_key", "Send an Idempotency-Key of 8 to 64 letters, digits and dashes.")
        sale = Parameters(request, "sale").whole("sale", 0, most=MOST_SALES)
        click, is_first = crowd.click(phone, key, sale)
        if is_first:
            buying.start(click)
        click.wait(ANSWER_S)
        return json_response(shown(crowd, phone))

    return app


def asked_language() -> str:
    """Of the address (``?language=zh``), or else of the browser."""
    asked = request.args.get("language", "")
    return asked if asked in TEXTS else str(request.accept_languages.best_match(list(TEXTS), "en"))


def shown(crowd: Crowd, phone: RoomBuyer | None, *, needs_pin: bool = False) -> dict[str, Any]:
    """The state as a phone sees it."""
    sale, joined = crowd.sale, len(crowd.phones)
    opens_in_ms = round(max(sale.opens_in_s, 0.0) * 1000) if sale else None
    told: dict[str, Any] = {
        "phase": crowd.phase.value,
        "sale": sale.number if sale else None,
        "opens_in_ms": opens_in_ms,
        "stock": sale.stock if sale else None,
        "joined": joined,
        "most_buyers": crowd.most_buyers,
        "poll_ms": max(LEAST_POLL_MS, POLL_MS_OF_A_PHONE * joined),
        "needs_pin": needs_pin,
        "me": None,
    }
    if phone:
        told["me"] = {"name": phone.name, "bet": phone.bet, **_purchase(crowd, phone)}
    return told


def _purchase(crowd: Crowd, phone: RoomBuyer) -> dict[str, Any]:
    sale = crowd.sale
    click = sale.clicks.get(phone.id) if sale else None
    if click is None:
        return {"bought": None}
    if click.bought is None:
        return {"bought": "pending"}
    others = crowd.others(click)
    names = [each.name for each in others if not each.is_robot]
    return {
        "bought": "sold" if click.bought.outcome is Outcome.SOLD else "sold_out",
        "number": click.bought.number,
        "others": names[:MOST_NAMES],
        "more": max(len(names) - MOST_NAMES, 0),
        "robots": len(others) - len(names),
    }
