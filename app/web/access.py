"""Whose page sends a request.

A page of another site must not reach a server through the browser of somebody who looks at both. Two ways are closed:
browsers say in `Origin` and `Sec-Fetch-Site` whose page it is that asks, and pages cannot change that; and a name of
its own that the other site lets point here (DNS rebinding) is not one by which the server is known.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container
from urllib.parse import urlsplit

from flask import request
from werkzeug.exceptions import Forbidden


def require_own_page() -> None:
    """Refuse what a page of another site sends, or lets a browser fetch."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
    if site not in ("same-origin", "none") or (origin is not None and origin.partition("://")[2] != request.host):
        raise Forbidden("Pages of other sites may not ask for this: only this server's own, and programs.")


def require_known_host(names: Container[str], *, advice: str) -> None:
    """Refuse a host name that is neither an address, nor ``localhost``, nor one of `names`.

    Args:
        names: in small letters.
        advice: what to do about it other than asking for the address.
    """
    try:
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        if host == "localhost" or host in names or ipaddress.ip_address(host):
            return
    except ValueError:
        pass
    raise Forbidden(f"This server is not known by that host name: use its address, or {advice}.")
