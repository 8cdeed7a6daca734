"""The page of the schedules that were tried, ``/schedules``: what `python -m loadtest schedules` has kept.

Where it has kept nothing, the page shows what came with the repository.
"""

from __future__ import annotations

from pathlib import Path

from flask import Blueprint, Flask, Response, send_file
from werkzeug.exceptions import NotFound

from app.board import parts
from app.board.web.pages import add_page
from app.web.responses import json_response
from labs.steps.schedules.files import newest, recorded

PAGE = Path(__file__).with_name("static") / "schedules.html"


schedules = Blueprint("schedules", __name__, url_prefix="/schedules")


@schedules.get("/results")
def results() -> Response:
    """The newest file of each guard that was explored here, or else that came with the repository."""
    reports = parts.of_board().settings.reports
    own = [] if reports is None else [(guard, path.relative_to(reports)) for guard, path in newest(reports)]
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


def init_app(app: Flask) -> None:
    """Register the page, and the list of what it can show; the files are served as records are."""
    add_page(app, "/schedules", PAGE)
    app.register_blueprint(schedules)
