"""The board's page, its stream of events, and recorded runs: the routes that change nothing."""

from __future__ import annotations

from pathlib import Path

from flask import Blueprint, Flask, Response, send_from_directory
from werkzeug.exceptions import NotFound

from app.board import parts
from app.board.live.event_stream import TooManyViewers
from app.board.sources.reports import read_reports
from app.contract import labs
from app.guards import guards
from app.web.responses import json_response, problem_response

STATIC = Path(__file__).parents[1] / "static"


pages = Blueprint("pages", __name__)


@pages.get("/setup")
def setup() -> Response:
    """What the page needs to know about this board."""
    board = parts.of_board()
    settings = board.settings
    return json_response(
        {
            "guards": [{"name": guard.name, "description": guard.description} for guard in guards().values()],
            "stock": settings.shop.stock,
            "lock_timeout_s": settings.shop.lock_timeout,
            "token_needed": not settings.on_loopback or settings.shop.admin_token is not None,
            "can_freeze": board.stack is not None and settings.on_loopback,
            "links": board.links,
            "lab_texts": labs.texts(),
        }
    )


@pages.get("/events")
def events() -> Response:
    """Server-sent events; see `app.board.live.event_stream`."""
    try:
        stream = parts.of_board().sampler.stream.view()
    except TooManyViewers as full:
        return problem_response(503, f"{full}: FLASHSALE_BOARD_VIEWERS allows more.", kind="too_many_viewers")
    response = Response(stream, content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"  # nginx would collect events before it sends them on
    return response


@pages.get("/runs/<guard>")
def run(guard: str) -> Response:
    """The last run under this guard, with its critical sections."""
    run = parts.of_board().sampler.last_run(guard)
    if run is None:
        raise NotFound(f"There was no run under {guard!a:.80} since the board began.")
    return json_response(run)


@pages.get("/records")
def records() -> Response:
    """What can be opened; see `app.board.sources.reports`."""
    reports = parts.of_board().settings.reports
    return json_response({"records": [*read_reports(reports)] if reports else []})


@pages.get("/records/<path:name>")
def recorded(name: str) -> Response:
    """One record, as its file is."""
    reports = parts.of_board().settings.reports
    if reports is None or not name.endswith(".json"):
        raise NotFound("There are no recorded runs here: FLASHSALE_REPORTS names their directory.")
    return _file(reports.resolve(), name)


@pages.get("/livez")
def livez() -> Response:
    """Answer at once."""
    return json_response({"status": "alive", "viewers": parts.of_board().sampler.stream.viewers})


def add_page(app: Flask, path: str, page: Path) -> None:
    """Serve a page at `path`, and the files of its folder below ``PATH/static/``."""
    path = path.rstrip("/")
    app.add_url_rule(path or "/", f"page of {path}", lambda: _file(page.parent, page.name))
    app.add_url_rule(f"{path}/static/<path:name>", f"files of {path}", lambda name: _file(page.parent, name))


def _file(directory: Path, name: str) -> Response:
    """The whole and newest file; an answer to If-Match or Range would not be a problem document."""
    return send_from_directory(directory, name, max_age=0, conditional=False)
