"""Which requests are accepted: those for known host names, from own pages, and of the administrator.

A page of another site must not reach a server through the browser of a person who looks at both. Browsers say in
`Origin` and `Sec-Fetch-Site` which page sends a request, and pages cannot change that. A host name of the other site
that points here (DNS rebinding) is not a name of this server.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Container
from contextlib import suppress
from urllib.parse import urlsplit

from flask import Flask, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, Unauthorized

PROBES = frozenset({"/livez", "/readyz", "/metrics"})  # monitoring uses its own host names


def init_app(app: Flask, *, names: Container[str], setting: str) -> None:
    """Refuse unknown host names on every route but `PROBES`, and each change from a page of another site."""

    @app.before_request
    def check() -> None:
        if request.path not in PROBES:
            require_known_host(names, setting=setting)
            if request.method not in ("GET", "HEAD"):
                require_own_page()


def require_own_page() -> None:
    """Refuse a request that a browser makes for a page of another site."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
    if site not in ("same-origin", "none") or (origin is not None and origin.partition("://")[2] != request.host):
        raise Forbidden("Pages of other sites may not ask for this: only this server's own, and programs.")


def require_known_host(names: Container[str], *, setting: str) -> None:
    """Refuse a host name that is neither an address, nor ``localhost``, nor one of `names`, which `setting` adds."""
    with suppress(ValueError):
        host = urlsplit(f"//{request.host}").hostname or ""  # request.host is empty if the header is not a host
        if host == "localhost" or host in names or ipaddress.ip_address(host):
            return
    raise Forbidden(f"This server is not known by that host name: use its address, or add the name to {setting}.")


def require_admin(token: str | None, *, on_loopback: bool, what: str) -> None:
    """Accept the request if it carries the administrator's `token`, or if none is set and `on_loopback`.

    Raises:
        Forbidden: no token is set to allow `what`.
        Unauthorized: the request does not carry it.
    """
    if token is None:
        if on_loopback:
            return
        raise Forbidden(f"Other machines can reach this server: set FLASHSALE_ADMIN_TOKEN to allow {what}.")
    # Not request.authorization: it reads a token with an equals sign as parameters. WSGI hands bytes over as Latin-1.
    sent = request.headers.get("Authorization", "").encode("latin-1")
    if not hmac.compare_digest(sent, f"Bearer {token}".encode()):
        raise Unauthorized(
            "Send the token that FLASHSALE_ADMIN_TOKEN has, in the header 'Authorization: Bearer TOKEN'.",
            www_authenticate=WWWAuthenticate("bearer"),
        )
