"""Decide which requests a server accepts: by host name, by the page that sent them, and by the admin token.

A page of another site must not reach this server through a visitor's browser. Browsers put the sending page into
`Origin` and `Sec-Fetch-Site`, and pages cannot change these headers. If the other site's host name points here (DNS
rebinding), the request is refused, because that name is not a name of this server.

A proxy that rewrites `Host`, such as a tool that forwards ports, leaves the name that the browser sees in `Origin`. A
page of that name counts as this server's own only if the name is in the settings.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Container
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlsplit


class Headers(Protocol):
    """The headers of a request; names in upper or lower case."""

    def get(self, key: str, default: str, /) -> str: ...


def is_own_page(headers: Headers, host: str, names: Container[str] = ()) -> bool:
    """Whether a request comes from a page of this server, or from no page at all.

    Args:
        headers: those of the request.
        host: the server's name, as the client gave it in `Host`.
        names: further names of this server, without a port.
    """
    origin = headers.get("Origin", f"http://{host}").partition("://")[2]
    return headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none") and (origin == host or origin in names)


def is_known_host(host: str, names: Container[str]) -> bool:
    """Whether `host`, with or without a port, is an address, ``localhost``, or one of `names` in lower case."""
    with suppress(ValueError):
        name = urlsplit(f"//{host}").hostname or ""
        return bool(name == "localhost" or name in names or ipaddress.ip_address(name))
    return False


def has_token(authorization: str, token: str) -> bool:
    """Whether the `Authorization` header, decoded by WSGI as Latin-1, has the admin token."""
    return hmac.compare_digest(authorization.encode("latin-1"), f"Bearer {token}".encode())
