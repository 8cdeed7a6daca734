"""Which requests are accepted: those for known host names, from own pages, and of the administrator.

The rules, and why there are any, are in `app.contract.access`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from flask import Flask, request
from pydantic import SecretStr
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, LengthRequired, Unauthorized

from app.contract.access import has_token, is_known_host, is_own_page

SITE = "Sec-Fetch-Site"
is_known = lru_cache(maxsize=64)(is_known_host)  # thousands of clicks name the same host
PROBES = frozenset({"/livez", "/readyz", "/metrics"})  # monitoring uses its own host names


def init_app(app: Flask, *, names: frozenset[str], setting: str) -> None:
    """Refuse bodies in chunks; unknown host names, but on `PROBES`; and each change from a page of another site."""

    @app.before_request
    def check() -> None:
        if "Transfer-Encoding" in request.headers:
            raise LengthRequired("Send the body in one piece, with its Content-Length, and not in chunks.")
        if request.path not in PROBES:
            if not is_known(request.host, names):  # empty if the header is not a host
                raise Forbidden(
                    f"This server is not known by that host name: use its address, or add the name to {setting}."
                )
            # Programs send neither header.
            if request.method not in ("GET", "HEAD") and ("Origin" in request.headers or SITE in request.headers):
                require_own_page(names)


def require_own_page(names: frozenset[str]) -> None:
    """Refuse a request that a browser makes for a page of another site; see `is_own_page`."""
    if not is_own_page(request.headers, request.host, names):
        raise Forbidden("Pages of other sites may not ask for this: only this server's own, and programs.")


class AdminSettings(Protocol):
    """Who may change the sale, in the settings of shop or board."""

    @property
    def admin_token(self) -> SecretStr | None: ...

    @property
    def on_loopback(self) -> bool: ...


def require_admin(settings: AdminSettings, what: str) -> None:
    """Accept the request if it carries the administrator's token, or if none is set and all clients are on loopback.

    Raises:
        Forbidden: no token is set to allow `what`.
        Unauthorized: the request does not carry it.
    """
    token = settings.admin_token
    if token is None:
        if settings.on_loopback:
            return
        raise Forbidden(f"Other machines can reach this server: set FLASHSALE_ADMIN_TOKEN to allow {what}.")
    # Not request.authorization: it reads a token with an equals sign as parameters.
    if not has_token(request.headers.get("Authorization", ""), token.get_secret_value()):
        raise Unauthorized(
            "Send the token that FLASHSALE_ADMIN_TOKEN has, in the header 'Authorization: Bearer TOKEN'.",
            www_authenticate=WWWAuthenticate("bearer"),
        )
