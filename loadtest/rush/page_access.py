"""Access to Locust's page: for the page itself and for programs, under known host names.

Locust's page starts rushes, so a page of another site must not reach it through a browser that shows both. The rules
are those of `app.web.access`; tests/data/page_access.json holds both to the same examples.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Container
from urllib.parse import urlsplit

from flask import Flask, Response, request
from werkzeug.exceptions import Forbidden

_HEADERS = {"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}


def protect(app: Flask) -> None:
    """Check every request to `app`; FLASHSALE_LOCUST_NAMES has further host names, comma-separated."""
    given = os.environ.get("FLASHSALE_LOCUST_NAMES", "").split(",")
    names = {name.strip().lower() for name in given} - {""}

    @app.before_request
    def check() -> None:
        require_known_host(names)
        if request.path != "/":  # the board links there
            require_own_page()

    @app.after_request
    def extend(response: Response) -> Response:
        response.headers.update(_HEADERS)
        return response


def require_own_page() -> None:
    """Refuse requests from pages of other sites."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
    if site not in ("same-origin", "none") or (origin is not None and origin.partition("://")[2] != request.host):
        raise Forbidden("Pages of other sites may not use Locust's page.")


def require_known_host(names: Container[str]) -> None:
    """Refuse a host name that is neither an address, nor ``localhost``, nor one of `names` (in small letters)."""
    try:
        host = urlsplit(f"//{request.host}").hostname or ""  # request.host is empty where the header is not a host
        if host == "localhost" or host in names or ipaddress.ip_address(host):
            return
    except ValueError:
        pass
    raise Forbidden("Locust's page is not known by that host name: use its address, or set FLASHSALE_LOCUST_NAMES.")
