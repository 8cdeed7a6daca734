"""Who may look, and who may control.

A page of another site must not reach the board through the browser of somebody who looks at both. Two ways are closed:
a name of its own that it lets point here (DNS rebinding) is refused, because the board is asked for by address, as
``localhost``, or by a name that was set; and nobody but the board's own page, or a program, is given the stream or a
control. Browsers say in `Origin` and `Sec-Fetch-Site` whose page it is that asks, and pages cannot change that.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container
from urllib.parse import urlsplit

from flask import Flask, Response, request
from werkzeug.exceptions import Forbidden, UnsupportedMediaType

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
OPEN_TO_LINKS = frozenset({"/", "/livez"})


def init_app(app: Flask, *, names: Container[str]) -> None:
    """Check every request; `names` are those under which the board may be asked for."""

    @app.before_request
    def check() -> None:
        require_known_host(names)
        if request.path not in OPEN_TO_LINKS:
            require_own_page()

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.update(HEADERS)
        return response


def require_known_host(names: Container[str]) -> None:
    """Refuse a host name that is neither an address, nor ``localhost``, nor one of `names`."""
    try:
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        if host == "localhost" or host in names or ipaddress.ip_address(host):
            return
    except ValueError:
        pass
    raise Forbidden(
        "The board does not know this host name: use its address, or add the name to FLASHSALE_BOARD_NAMES."
    )


def require_own_page() -> None:
    """Refuse what a page of another site sends, or lets a browser fetch."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
    if site not in ("same-origin", "none") or (origin is not None and urlsplit(origin).netloc != request.host):
        raise Forbidden("Only the board's own page may ask for this.")
    # A form of another site can send texts and forms without asking first, but not JSON.
    if request.method == "POST" and not request.is_json:
        raise UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'.")
