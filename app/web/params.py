"""The checked parameters of a request. Every problem is a 400 that says what to give instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from flask import Request
from werkzeug.exceptions import BadRequest, UnsupportedMediaType

LONGEST_TEXT = 200
LARGEST_BODY = 16 * 1024


class Parameters:
    """The parameters of one request, which may have these `names`: its query and the members of its JSON body.

    Raises:
        BadRequest: the body is not a whole JSON object, there are other parameters, or one is given twice.
        RequestEntityTooLarge: the body is longer than `LARGEST_BODY` bytes.
        UnsupportedMediaType: the body is not declared as JSON.
    """

    def __init__(self, request: Request, *names: str) -> None:
        body = _body(request) if request.content_length else {}
        given = [*body.items(), *request.args.items(multi=True)]
        self._values: dict[str, Any] = dict(given)
        if unknown := self._values.keys() - set(names):
            raise BadRequest(f"There is no parameter {_shown(min(unknown))} here: use {', '.join(names)}.")
        if len(self._values) < len(given):
            raise BadRequest("Give each parameter once, in the query or in the body.")

    def has(self, name: str) -> bool:
        return name in self._values

    def whole(self, name: str, default: int, *, least: int = 0, most: int, why: str = "") -> int:
        """A whole number from `least` to `most`; the error message adds `why`."""
        value = self._values.get(name, default)
        # str.isdigit also accepts the digits of other scripts, and bool is an int.
        is_digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16
        if is_digits or (isinstance(value, float) and value.is_integer()):  # by JSON Schema, 300.0 is an integer, too
            value = int(value)
        if type(value) is not int or not least <= value <= most:
            raise BadRequest(f"{name} is {_shown(value)}: give a whole number from {least} to {most}{why}.")
        return value

    def text(self, name: str, default: str) -> str:
        """Any text of 1 to `LONGEST_TEXT` characters."""
        return checked_text(name, self._values.get(name, default))

    def choice(self, name: str, default: str, valid: Iterable[str]) -> str:
        value = self._values.get(name, default)
        if not isinstance(value, str) or value not in valid:
            raise BadRequest(f"{name} is {_shown(value)}: give one of {', '.join(valid)}.")
        return value


def checked_text(name: str, value: Any) -> str:
    """`value`, if it is a text of 1 to `LONGEST_TEXT` characters that UTF-8 can encode; or else raises `BadRequest`."""
    if isinstance(value, str) and 1 <= len(value) <= LONGEST_TEXT:
        with suppress(UnicodeEncodeError):  # JSON can escape half a character
            value.encode()
            return value
    raise BadRequest(f"{name} is {_shown(value)}: give a text of 1 to {LONGEST_TEXT} characters.")


def _body(request: Request) -> dict[str, Any]:
    request.max_content_length = LARGEST_BODY
    data = request.get_data(cache=False)
    if len(data) < (request.content_length or 0):
        raise BadRequest("The body broke off: send all of it at once, or none.")
    if not data:
        return {}
    if not request.is_json:
        # curl -d sends a form: say what to type instead, unless the form could end the shell's quotation marks.
        text = data.decode("latin-1")
        query = text if re.fullmatch(r"[\w=&.,%+-]{1,200}", text, re.ASCII) else "NAME=VALUE"
        raise UnsupportedMediaType(
            "Send the body as JSON, with the header 'Content-Type: application/json'; "
            f"or parameters without a body: curl -X POST '{request.base_url}?{query}'"
        )
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        raise BadRequest('The body is not a JSON object: send one such as {"stock": 300}, or no body at all.')
    return members


def _shown(value: Any) -> str:
    """A value for an error message: short, in ASCII."""
    return ascii(value)[:80]
