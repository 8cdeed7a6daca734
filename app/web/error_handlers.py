"""Every error is a problem (RFC 9457); the framework answers nothing by itself."""

from __future__ import annotations

import logging
from contextlib import suppress

from flask import Flask, Response, current_app, request
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]
from werkzeug.exceptions import HTTPException, LengthRequired, MethodNotAllowed, NotFound, RequestEntityTooLarge

from app.sales.advice import ETCD_USER, REDIS_USER
from app.sales.refusals import TEMPORARY, refusal_of, sentence
from app.web.params import LARGEST_BODY
from app.web.responses import problem_response

logger = logging.getLogger(__name__)

MOST_DISCARDED = 32 * 1024 * 1024  # bytes


def init_app(app: Flask, *, addresses: str | None = None) -> None:
    """Answer every error as a problem; a 404 offers `addresses`, or all routes. Call it before routes are added."""
    app.url_map.merge_slashes = False  # or //stock is redirected, in HTML, to a host of the client's choice
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.config["ADDRESSES"] = addresses
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _defect)
    for error in TEMPORARY:
        app.register_error_handler(error, _unavailable)


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    detail = error.description or ""
    if detail == NotFound.description:
        detail = f"There is no such address. {current_app.config['ADDRESSES'] or _addresses()}"
    elif isinstance(error, RequestEntityTooLarge):
        detail = f"The body is too large. A purchase needs none; the limit is {LARGEST_BODY} bytes."
    elif isinstance(error, MethodNotAllowed):
        detail = f"{request.method} is not possible here: use {', '.join(sorted(error.valid_methods or ()))}."
    response = problem_response(status, detail)
    for name, value in error.get_headers():
        if name != "Content-Type":  # of a page in HTML
            response.headers[name] = value
    if isinstance(error, LengthRequired | RequestEntityTooLarge):
        _discard_body()
    return response


def _addresses() -> str:
    rules = current_app.url_map.iter_rules()
    routes = sorted((rule.rule, method) for rule in rules for method in (rule.methods or set()) - {"HEAD"})
    return f"There are {', '.join(f'{method} {path}' for path, method in routes)}."


def _discard_body() -> None:
    """Receive the rest of a body that is too large, or in chunks, before the response is sent.

    A client that is still sending would see a broken connection instead of the response. gunicorn reads the rest after
    the response, and sends a second one if a chunk is bad.
    """
    body, received = request.environ["wsgi.input"], 0
    with suppress(OSError, ParseException):  # the client stops sending, or a chunk is bad
        while received < MOST_DISCARDED and (chunk := body.read(65536)):
            received += len(chunk)


def _unavailable(error: Exception) -> Response:
    refusal = refusal_of(error)
    is_denied = refusal and refusal.advice in (ETCD_USER, REDIS_USER)  # which does not pass by waiting
    advice = refusal.advice if refusal and is_denied else "Try again in a moment."
    return problem_response(503, f"{sentence(error)} {advice}", kind="unavailable")


def _defect(error: Exception) -> Response:
    logger.exception("%s %s failed", request.method, request.path)
    return problem_response(500, "This is a defect of the shop, not of your request: see the log of this instance.")
