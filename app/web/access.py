"""Which requests are accepted: those for known host names, from own pages, and of the administrator.

The rules, and why there are any, are in `app.contract.access`.
"""

from __future__ import annotations

from collections.abc import Container

from flask import Flask, request
from pydantic import SecretStr
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, LengthRequired, Unauthorized

from app.contract.access import has_token, is_known_host, is_own_page

PROBES = frozenset({"/livez", "/readyz", "/metrics"})  # monitoring uses its own host names


def init_app(app: Flask, *, names: Container[str], setting: str) -> None:
    """Refuse bodies in chunks; unknown host names, but on `PROBES`; and each change from a page of another site."""

    @app.before_request
    def check() -> None:
        if "Transfer-Encoding" in request.headers:
            raise LengthRequired("Send the body in one piece, with its Content-Length, and not in chunks.")
        if request.path not in PROBES:
            if not is_known_host(request.host, names):  # empty if the header is not a host
                raise Forbidden(
                    f"This server is not known by that host name: use its address, or add the name to {setting}."
                )
            if request.method not in ("GET", "HEAD"):
                require_own_page()


def require_own_page() -> None:
    """Refuse a request that a browser makes for a page of another site."""
    if not is_own_page(request.headers, request.host):
        raise Forbidden("Pages of other sites may not ask for this: only this server's own, and programs.")


def require_admin(token: SecretStr | None, *, on_loopback: bool, what: str) -> None:
    """Accept the request if it carries the administrator's `token`, or if none is set and `on_loopback`.

    Raises:
        Forbidden: no token is set to allow `what`.
        Unauthorized: the request does not carry it.
    """
    if token is None:
        if on_loopback:
            return
        raise Forbidden(f"Other machines can reach this server: set FLASHSALE_ADMIN_TOKEN to allow {what}.")
    # Not request.authorization: it reads a token with an equals sign as parameters.
    if not has_token(request.headers.get("Authorization", ""), token.get_secret_value()):
        raise Unauthorized(
            "Send the token that FLASHSALE_ADMIN_TOKEN has, in the header 'Authorization: Bearer TOKEN'.",
            www_authenticate=WWWAuthenticate("bearer"),
        )
