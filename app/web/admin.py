"""Who may change the sale: the administrator; or anybody, as long as only this machine can reach the server."""

from __future__ import annotations

import hmac

from flask import request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Forbidden, Unauthorized


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
