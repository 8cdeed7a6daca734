"""The live board: its own process, which watches one sale and shows it to all viewers.

An instance cannot serve it: in a locked rush all its threads wait, and the page would freeze.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from app.board.settings import BoardSettings


def create_board(settings: BoardSettings | None = None) -> Flask:
    """Create the board as a WSGI application; its sampler, ``extensions["sampler"]``, is not started.

    Args:
        settings: those of the environment if None.

    Raises:
        SettingsError: the environment cannot be used.
    """
    # Imported here: gunicorn's master reads app.board.settings, and must not load gRPC before it forks.
    from flask import Flask

    from app.board.live.sampler import Sampler
    from app.board.settings import BoardSettings
    from app.board.sources.locust import Locust
    from app.board.sources.stack_client import StackClient
    from app.board.web import controls, pages, security
    from app.contract import labs
    from app.web import error_handlers

    settings = settings or BoardSettings.from_environment()
    stack = StackClient(settings.stack) if settings.stack else None
    locust = Locust(settings.locust)
    sampler = Sampler(settings, stack=stack, locust=locust)
    app = Flask("app.board", static_folder=None)
    app.config["INSTANCE"] = "board"
    app.extensions["sampler"] = sampler
    error_handlers.init_app(app, addresses="Try the board's page at /.")
    security.init_app(app, names=frozenset({*settings.names, settings.host}))
    pages.init_app(app, settings, sampler)
    controls.init_app(app, settings, stack=stack, locust=locust)
    for lab in labs.modules("board"):
        lab.init_app(app, settings)
    return app
