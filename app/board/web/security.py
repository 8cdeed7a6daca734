"""Access to the board: under an address, ``localhost`` or a name that was set.

Only its own page and programs may use the stream and the controls. `app.contract.access` says why.
"""

from __future__ import annotations

from collections.abc import Set

from flask import Flask, Response, request
from werkzeug.exceptions import UnsupportedMediaType

from app.board.settings import BoardSettings
from app.web import access
from app.web.access import require_admin, require_own_page

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def init_app(app: Flask, *, names: frozenset[str], pages: Set[str]) -> None:
    """Check every request; `names` are host names of the board, `pages` paths that other sites may link to."""
    open_to_links = access.PROBES | pages
    access.init_app(app, names=names, setting="FLASHSALE_BOARD_NAMES")

    @app.before_request
    def check() -> None:
        if request.path not in open_to_links:
            require_own_page(names)
            # A form of another site can send texts and forms without asking first, but no JSON.
            if request.method == "POST" and not request.is_json:
                raise UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'.")

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response


def authorize(settings: BoardSettings) -> None:
    """Accept the request if it may change the sale; see `app.web.access.require_admin`."""
    require_admin(settings, "controls on the board")
