"""Which requests a page or a server accepts: for known host names, from own pages, and from the administrator.

A page of another site must not reach a server through the browser of a person who looks at both. Browsers say in
`Origin` and `Sec-Fetch-Site` which page sends a request, and pages cannot change that. A host name of the other site
that points here (DNS rebinding) is not a name of this server.

A proxy that rewrites `Host`, as tools that forward ports do, leaves the name that the browser sees in `Origin`. A page
of that name is this server's own where the name was set: its owner says that nothing else is served there.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Container
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlsplit


class Headers(Protocol):
    """The headers of a request, in any case."""

    def get(self, key: str, default: str, /) -> str: ...


def is_own_page(headers: Headers, host: str, names: Container[str] = ()) -> bool:
    """Whether a request for `host`, the server's name as the client gave it, comes from no page of another site.

    `names` are those that were set; a page of one of them, without a port, is the server's own.
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
    """Whether the header, as WSGI hands it over (Latin-1), carries the administrator's token."""
    return hmac.compare_digest(authorization.encode("latin-1"), f"Bearer {token}".encode())
