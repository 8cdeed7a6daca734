"""What labs add to the board: ``labs/NAME/board.py`` with `init_app(app, settings)`, called as `create_board` ends.

`init_app` registers the lab's routes, as a rule by a Flask blueprint that serves its files from the lab's own folder
(``Blueprint("steps", __name__, url_prefix="/steps", static_folder="static")``), and says what the page shows of it:
`add_link` puts a link into the top bar, `add_panel` an ES module whose ``init(board)`` the page calls once, with
``board.drawer(name, title)`` for a section that a button in the top bar opens, ``board.onShow(view => ...)`` for every
view that is drawn, ``board.send(path, body)`` for a POST with the administrator's token, and ``board.language``.
What it needs is in ``app.extensions``: "sampler", "locust", and "stack", which is None without a local stack. A route
that changes something calls `app.board.web.security.authorize` first. The page's access rules hold for all routes; a
page that was added by `add_link` can also be opened from elsewhere.
"""

from __future__ import annotations

from typing import Any

from flask import Flask

from app.board.settings import BoardSettings
from app.contract import labs

Text = dict[str, str]  # by language: {"en": ..., "zh": ...}


def init_app(app: Flask, settings: BoardSettings) -> None:
    """Let each lab that has a ``board.py`` add its part."""
    app.extensions["lab_parts"] = {"links": [], "panels": []}
    for lab in labs.modules("board"):
        lab.init_app(app, settings)


def add_link(app: Flask, path: str, title: Text) -> None:
    """Link to the lab's page at `path` in the top bar of the board."""
    app.extensions["lab_parts"]["links"].append({"path": path, "title": title})


def add_panel(app: Flask, module: str) -> None:
    """Have the page import the ES module at the path `module`, and call its ``init(board)``."""
    app.extensions["lab_parts"]["panels"].append(module)


def parts(app: Flask) -> dict[str, list[Any]]:
    """The links and panels, as the page is told of them."""
    added: dict[str, list[Any]] = app.extensions["lab_parts"]
    return added


def is_page(app: Flask, path: str) -> bool:
    """Whether `path` is a page that was added by `add_link`."""
    return any(link["path"] == path for link in parts(app)["links"])
