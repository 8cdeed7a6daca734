"""HTTP calls that may be repeated: each has a key and a deadline."""

from __future__ import annotations

import contextlib
import json
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

import click


class Unanswered(click.ClickException):
    """There was no answer, or not in time: what was asked for may have been done. The same key asks again."""


def call(method: str, url: str, body: Any = None, *, key: str = "", timeout: float) -> dict[str, Any]:
    """The JSON that is answered; raises `Unanswered`, also for an answer without JSON or an error of the server."""
    where = urlsplit(url)
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    connection = HTTPConnection(where.netloc, timeout=timeout)
    try:
        with contextlib.closing(connection):
            connection.request(method, f"{where.path}?{where.query}", body and json.dumps(body), headers)
            answer = connection.getresponse()
            if answer.status >= 500:
                raise HTTPException(answer.status)
            members: dict[str, Any] = json.loads(answer.read())
            return members
    except (OSError, ValueError, HTTPException) as error:
        raise Unanswered(f"{where.netloc} did not answer {method} {where.path}: {error}") from error
