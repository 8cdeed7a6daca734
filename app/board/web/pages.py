"""The board's page, its stream of events, and recorded runs."""

from __future__ import annotations

from pathlib import Path

from flask import Flask, Response, send_from_directory
from werkzeug.exceptions import NotFound

from app.board.live.event_stream import TooManyViewers
from app.board.live.sampler import Sampler
from app.board.settings import BoardSettings
from app.guards import GUARDS
from app.web.responses import json_response, problem_response

STATIC = Path(__file__).parents[1] / "static"
MOST_REPORTS = 10


class Pages:
    """The routes that change nothing."""

    def __init__(self, settings: BoardSettings, sampler: Sampler) -> None:
        self._settings = settings
        self._sampler = sampler

    def page(self) -> Response:
        return self.static("index.html")

    def static(self, name: str) -> Response:
        """``GET /static/...``."""
        return _file(STATIC, name)

    def setup(self) -> Response:
        """``GET /setup``: what the page needs to know about this board."""
        settings = self._settings
        open_to_all = settings.on_loopback and settings.shop.admin_token is None
        return json_response(
            {
                "guards": [{"name": guard.name, "description": guard.description} for guard in GUARDS],
                "stock": settings.shop.stock,
                "lock_timeout_s": settings.shop.lock_timeout,
                "token_needed": not open_to_all,
                "can_freeze": settings.stack is not None and settings.on_loopback,
                "reports": self._reports(),
            }
        )

    def _reports(self) -> list[str]:
        """Recorded runs, the newest first."""
        directory = self._settings.reports
        if directory is None:
            return []
        times = sorted((each for each in directory.glob("*") if not each.is_symlink()), reverse=True)
        paths = (path for time in times[:MOST_REPORTS] for path in sorted(time.glob("records/*.json")))
        names = [path.relative_to(directory).as_posix() for path in paths]
        return [name for name in names if name.encode(errors="replace").decode() == name]  # others cannot be sent

    def events(self) -> Response:
        """``GET /events``: server-sent events; see `app.board.live.event_stream`."""
        try:
            stream = self._sampler.stream.view()
        except TooManyViewers as full:
            return problem_response(503, f"{full}: FLASHSALE_BOARD_VIEWERS allows more.", kind="too_many_viewers")
        response = Response(stream, content_type="text/event-stream")
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Accel-Buffering"] = "no"  # nginx would collect events before it sends them on
        return response

    def run(self, guard: str) -> Response:
        """``GET /runs/GUARD``: the last run under this guard, with its critical sections."""
        run = self._sampler.last_run(guard)
        if run is None:
            raise NotFound(f"There was no run under {guard!a:.80} since the board began.")
        return json_response(run)

    def recorded(self, name: str) -> Response:
        """``GET /records/...``: a recorded run."""
        if self._settings.reports is None or not name.endswith(".json"):
            raise NotFound("There are no recorded runs here: FLASHSALE_REPORTS names their directory.")
        return _file(self._settings.reports.resolve(), name)

    def livez(self) -> Response:
        return json_response({"status": "alive", "viewers": self._sampler.stream.viewers})


def _file(directory: Path, name: str) -> Response:
    """The whole and newest file; an answer to If-Match or Range would not be a problem document."""
    return send_from_directory(directory, name, max_age=0, conditional=False)


def init_app(app: Flask, pages: Pages) -> None:
    """Register the pages."""
    app.add_url_rule("/", view_func=pages.page, methods=["GET"])
    app.add_url_rule("/static/<path:name>", view_func=pages.static, methods=["GET"])
    app.add_url_rule("/setup", view_func=pages.setup, methods=["GET"])
    app.add_url_rule("/events", view_func=pages.events, methods=["GET"])
    app.add_url_rule("/runs/<guard>", view_func=pages.run, methods=["GET"])
    app.add_url_rule("/records/<path:name>", view_func=pages.recorded, methods=["GET"])
    app.add_url_rule("/livez", view_func=pages.livez, methods=["GET"])
