"""Who may send a request: known host names, own pages, and the administrator.

A page of another site must not reach a server through the browser of a person who looks at both. Browsers say in
`Origin` and `Sec-Fetch-Site` which page sends a request, and pages cannot change that. A host name of the other site
that points here (DNS rebinding) is not a name of this server.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Container
from urllib.parse import urlsplit

from flask import Flask, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, Unauthorized

PROBES = frozenset({"/livez", "/readyz", "/metrics"})  # monitoring uses names that are not set


def init_app(app: Flask, *, names: Container[str], setting: str) -> None:
    """Refuse unknown host names on every route but `PROBES`, and each change from a page of another site.

    Args:
        app: the shop or the board.
        names: see `require_known_host`.
        setting: see `require_known_host`.
    """

    @app.before_request
    def check() -> None:
        if request.path not in PROBES:
            require_known_host(names, setting=setting)
            if request.method not in ("GET", "HEAD"):
                require_own_page()


def require_own_page() -> None:
    """Refuse what a page of another site sends, or lets a browser fetch."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
    if site not in ("same-origin", "none") or (origin is not None and origin.partition("://")[2] != request.host):
        raise Forbidden("Pages of other sites may not ask for this: only this server's own, and programs.")


def require_known_host(names: Container[str], *, setting: str) -> None:
    """Refuse a host name that is neither an address, nor ``localhost``, nor one of `names`.

    Args:
        names: in small letters.
        setting: the variable that adds a name, for the message.
    """
    try:
        host = urlsplit(f"//{request.host}").hostname or ""  # request.host is empty where the header is not a host
        if host == "localhost" or host in names or ipaddress.ip_address(host):
            return
    except ValueError:
        pass
    raise Forbidden(f"This server is not known by that host name: use its address, or add the name to {setting}.")


def require_admin(token: str | None, *, on_loopback: bool, what: str) -> None:
    """Let the request pass if it carries `token`, or if there is none and `on_loopback`.

    Args:
        token: the administrator's, if one is set.
        on_loopback: whether only this machine can send requests.
        what: the thing that is asked for, for the message.

    Raises:
        Forbidden: it takes a token, and none is set.
        Unauthorized: the request does not carry it.
    """
    if token is None and on_loopback:
        return
    if token is None:
        raise Forbidden(f"Other machines can reach this server: set FLASHSALE_ADMIN_TOKEN to allow {what}.")
    # Not request.authorization, which takes a token with an equals sign in it for parameters.
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    # WSGI hands header bytes over as Latin-1.
    is_right = hmac.compare_digest(sent.strip().encode("latin-1"), token.encode())
    if scheme.lower() != "bearer" or not is_right:
        raise Unauthorized(
            "Send the token that FLASHSALE_ADMIN_TOKEN has, in the header 'Authorization: Bearer TOKEN'.",
            www_authenticate=WWWAuthenticate("bearer"),
        )
