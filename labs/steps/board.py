"""The scheduler's page on the board, ``/steps``, whose state is open to all who may see the board; and ``/schedules``.

That shows what `python -m loadtest schedules` has kept, or else what came with the repository.
"""

from __future__ import annotations

from pathlib import Path

from flask import Blueprint, Flask, Response, current_app, request, send_file, send_from_directory
from werkzeug.exceptions import BadRequest, NotFound

from app.board import parts
from app.board.parts import BoardParts
from app.board.settings import BoardSettings
from app.board.web.pages import add_page
from app.board.web.security import authorize
from app.contract.access import is_own_page
from app.guards import guards
from app.web.params import Parameters
from app.web.responses import json_response
from labs.steps.mistakes import mistakes
from labs.steps.scheduler import BUYERS, Scheduler
from labs.steps.schedules.files import newest, recorded
from labs.steps.stepped import COMMANDS, POINTS

LINK = {"path": "/steps", "text": {"en": "You are the scheduler", "zh": "你来当调度器"}}
STATIC = Path(__file__).with_name("static")
SCHEDULES = Path(__file__).with_name("schedules") / "static" / "schedules.html"
GRAINS = (POINTS, COMMANDS)
MISTAKE = ("name", "description", "found")

steps = Blueprint("steps", __name__, url_prefix="/steps")
schedules = Blueprint("schedules", __name__, url_prefix="/schedules")


def known_guards() -> list[str]:
    """Those of the shop, and the mistakes."""
    return [*guards(), *mistakes()]


def the_scheduler() -> Scheduler:
    """The one of this board."""
    scheduler: Scheduler = current_app.extensions["scheduler"]
    return scheduler


@steps.get("")
def page() -> Response:
    """The page, which begins the first level unless another site's page has led here."""
    own = str(is_own_page(request.headers, request.host)).lower()
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    return Response(text.replace("<body>", f'<body data-begins="{own}">', 1))


@steps.get("/static/<path:name>")
def files(name: str) -> Response:
    """The page's files."""
    return send_from_directory(STATIC, name, max_age=0, conditional=False)


@steps.get("/state")
def state() -> Response:
    """The purchases under way; see `Scheduler.show`."""
    return json_response(the_scheduler().show())


@steps.get("/mistakes")
def listed_mistakes() -> Response:
    """The wrong locks, whose levels are behind those of the shop's guards."""
    known = mistakes().values()
    return json_response({"mistakes": [{name: getattr(each, name, "") for name in MISTAKE} for each in known]})


@steps.before_request
def check() -> None:
    """Accept changes from those who may reset the sale."""
    if request.method == "POST":
        authorize(parts.of_board().settings)


@steps.post("/begin")
def begin() -> Response:
    """Start anew under a guard, with a stock of one."""
    asked = Parameters(request, "guard", "grain")
    the_scheduler().begin(asked.choice("guard", "none", known_guards()), asked.choice("grain", POINTS, GRAINS))
    return state()


@steps.post("/add")
def add() -> Response:
    """Add a purchase to those under way."""
    asked = Parameters(request, "guard", "grain", "buyer")
    guard, grain = asked.choice("guard", "none", known_guards()), asked.choice("grain", POINTS, GRAINS)
    the_scheduler().add(guard, asked.choice("buyer", "C", list(BUYERS)), grain)
    return state()


@steps.post("/step")
def step() -> Response:
    """Let one purchase go on."""
    id = Parameters(request, "id").text("id", "")
    if not id.isalnum():
        raise BadRequest("Give the id of a purchase.")
    the_scheduler().step(id)
    return state()


@schedules.get("/results")
def results() -> Response:
    """The newest file of each guard that was explored here, or else that came with the repository."""
    reports = parts.of_board().settings.reports
    own = [] if reports is None else [(guard, path.relative_to(reports)) for guard, path in newest(reports).items()]
    found = {guard: f"/records/{path.as_posix()}" for guard, path in own}
    shown = found or {guard: f"/schedules/recorded/{guard}" for guard in recorded()}
    listed = [{"guard": guard, "path": path} for guard, path in shown.items()]
    return json_response({"own": bool(found), "results": listed})


@schedules.get("/recorded/<guard>")
def recorded_of(guard: str) -> Response:
    """One that came with the repository."""
    path = recorded().get(guard)
    if path is None:
        raise NotFound(f"Nothing was recorded of {guard!a:.80}.")
    return send_file(path, max_age=0, conditional=False)


def init_app(app: Flask, settings: BoardSettings) -> None:
    """Register the page and its routes."""
    board: BoardParts = app.extensions["board"]
    app.extensions["scheduler"] = Scheduler(settings, stack=board.stack, locust=board.locust)
    app.register_blueprint(steps)
    add_page(app, "/schedules", SCHEDULES)
    app.register_blueprint(schedules)
