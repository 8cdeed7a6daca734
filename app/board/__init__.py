"""The live board: its own process, which watches one sale and shows it to all viewers.

An instance cannot serve it: in a locked rush all its threads wait, and the page would freeze.

A lab adds a page by ``labs/NAME/board.py`` with `init_app(app, settings)`, called as `create_board` ends, and with
``LINK = {"path": "/NAME", "text": {"en": ..., "zh": ...}}`` for the link in the top bar, which keeps the viewer's
language (``?lang=``); `None` for no link. With ``"first": {"path": ..., "body": ...}`` the board's page posts that
before it follows the link. `init_app` calls `app.board.web.pages.add_page`; the page's files lie in the lab's own
folder, and its colours are those of ``/static/palette.css``. Further routes find the board's parts by
`app.board.parts.of_board`. A route that changes something calls `app.board.web.security.authorize` first. The access
rules of the board hold for all routes; the page at LINK's path can also be opened from other sites, as the board can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from app.board.settings import BoardSettings


def create_board(settings: BoardSettings | None = None) -> Flask:
    """Create the board as a WSGI application; its sampler is not started.

    Args:
        settings: those of the environment if `None`.

    Raises:
        SettingsError: the environment cannot be used.
    """
    # Imported here: gunicorn's master reads app.board.settings, and must not load gRPC before it forks.
    from flask import Flask

    from app.board.live.sampler import Sampler
    from app.board.parts import BoardParts
    from app.board.settings import BoardSettings
    from app.board.sources.locust import RushClient
    from app.board.sources.stack_client import StackClient
    from app.board.web import security
    from app.board.web.controls import controls
    from app.board.web.pages import STATIC, add_page, pages
    from app.config.etcd import connect_etcd
    from app.contract import labs
    from app.sales.redis_client import connect
    from app.sales.sale import Sale
    from app.web import error_handlers

    settings = settings or BoardSettings.from_environment()
    stack = StackClient(settings.stack) if settings.stack else None
    locust = RushClient(settings.locust)
    sampler = Sampler(settings, stack=stack, locust=locust)
    app = Flask("app.board", static_folder=None)
    app.config["INSTANCE"] = "board"
    of_labs = [*labs.modules("board")]
    links = [each.LINK for each in of_labs if each.LINK]
    pages_of_labs = {link["path"] for link in links}
    shop = settings.shop
    client = connect(shop.redis_url, connections=1)
    sale = Sale(client, shop.sale, etcd=connect_etcd(shop), stock=shop.stock, items=shop.items)
    app.extensions["board"] = BoardParts(settings, sampler, locust, stack, sale, links)
    error_handlers.init_app(app, addresses="Try the board's page at /.")
    security.init_app(app, names=frozenset({*settings.names, settings.host}), pages={"/", *pages_of_labs})
    add_page(app, "/", STATIC / "index.html")
    app.register_blueprint(pages)
    app.register_blueprint(controls)
    for each in of_labs:
        each.init_app(app, settings)
    return app
