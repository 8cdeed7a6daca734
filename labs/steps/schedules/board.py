"""The page of the schedules that were tried, ``/schedules``: what `python -m loadtest schedules` has kept."""

from __future__ import annotations

from pathlib import Path

from flask import Flask, Response

from app.board.settings import BoardSettings
from app.board.web.pages import add_page
from app.web.responses import json_response
from labs.steps.schedules.files import newest

PAGE = Path(__file__).with_name("static") / "schedules.html"


def init_app(app: Flask, settings: BoardSettings) -> None:
    """Register the page, and the list of what it can show; the files are served as records are."""
    add_page(app, "/schedules", PAGE)

    @app.get("/schedules/results")
    def schedules() -> Response:
        """The newest file of each guard that was explored."""
        reports = settings.reports
        found = [] if reports is None else [(guard, path.relative_to(reports)) for guard, path in newest(reports)]
        return json_response({"results": [{"guard": guard, "path": path.as_posix()} for guard, path in found]})
