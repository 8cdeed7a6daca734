"""Responses: JSON that names the instance, and problems (RFC 9457) that say what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from flask import Response, current_app

RETRY_AFTER_S = 1
_encode = json.JSONEncoder(ensure_ascii=False).encode


def json_response(members: Mapping[str, Any], *, status: int = 200, content_type: str = "application/json") -> Response:
    """`members` and the name of this instance, as JSON."""
    body = {**members, "instance": current_app.config["INSTANCE"]}
    response = Response(_encode(body), status=status, content_type=content_type)
    response.headers["Cache-Control"] = "no-store"
    return response


def problem_response(status: int, detail: str, *, kind: str | None = None, **members: Any) -> Response:
    """An ``application/problem+json``; a 503 has Retry-After.

    Args:
        status: the HTTP status.
        detail: what happened and what to do.
        kind: the name of one of the shop's own problems; `None` for those of HTTP.
        members: further members of the document.
    """
    title = HTTPStatus(status).phrase if kind is None else kind.replace("_", " ").capitalize()
    about = "about:blank" if kind is None else f"urn:stock-flash-sale:problem:{kind}"
    document = {"type": about, "title": title, "status": status, "detail": detail, **members}
    response = json_response(document, status=status, content_type="application/problem+json")
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
