"""The checked parameters of a request. Every problem is a 400 that says what to give instead."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from flask import Request
from gunicorn.http.errors import ParseException  # type: ignore[import-untyped]
from werkzeug.exceptions import (
    BadRequest,
    ClientDisconnected,
    RequestEntityTooLarge,
    RequestTimeout,
    UnsupportedMediaType,
)

LONGEST_TEXT = 200
LARGEST_BODY = 16 * 1024


class Parameters:
    """The parameters of one request, which may have these `names`: its query and the members of its JSON body.

    Raises:
        BadRequest: the body is not a JSON object or badly chunked, there are other parameters, or one has more than
            one value.
        RequestEntityTooLarge: the body is longer than `LARGEST_BODY` bytes.
        RequestTimeout: the body breaks off.
        UnsupportedMediaType: the body is not declared as JSON.
    """

    def __init__(self, request: Request, *names: str) -> None:
        self._values = _once([*_body(request).items(), *request.args.items(multi=True)])
        unknown = self._values.keys() - set(names)
        if unknown:
            raise BadRequest(f"There is no parameter {_shown(min(unknown))} here: use {_listed(names)}.")

    def has(self, name: str) -> bool:
        return name in self._values

    def whole(self, name: str, default: int, *, least: int = 0, most: int, why: str = "") -> int:
        """A whole number from `least` to `most`; the error message adds `why`."""
        return _whole(name, self._values.get(name, default), least, most, why)

    def several(self, name: str, *, least: int, most: int, count: int, why: str = "") -> list[int]:
        """Up to `count` different whole numbers: a list, or ``1,4`` in a query."""
        given = self._values.get(name)
        values = given.split(",") if isinstance(given, str) else given
        if not isinstance(values, list) or not 1 <= len(values) <= count:
            raise BadRequest(f"{name} is {_shown(given)}: give 1 to {count} whole numbers, such as 1,4 or [1, 4].")
        numbers = [_whole(name, value, least, most, why) for value in values]
        if len(set(numbers)) < len(numbers):
            raise BadRequest(f"{name} is {_shown(given)}: name each one once.")
        return numbers

    def text(self, name: str, default: str) -> str:
        """Any text of 1 to `LONGEST_TEXT` characters."""
        return checked_text(name, self._values.get(name, default))

    def choice(self, name: str, default: str, valid: Iterable[str]) -> str:
        """One of `valid`."""
        value = self._values.get(name, default)
        if not isinstance(value, str) or value not in valid:
            raise BadRequest(f"{name} is {_shown(value)}: give one of {_listed(valid)}.")
        return value


def checked_text(name: str, value: Any) -> str:
    """`value`, if it is a text of 1 to `LONGEST_TEXT` characters that UTF-8 can encode; or else raises `BadRequest`."""
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT:
        raise BadRequest(f"{name} is {_shown(value)}: give a text of 1 to {LONGEST_TEXT} characters.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{name} has half a character (a lone surrogate) in it: give whole ones.") from None
    return value


def _whole(name: str, value: Any, least: int, most: int, why: str) -> int:
    # str.isdigit also accepts the digits of other scripts, and bool is an int.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if type(value) is not int or not least <= value <= most:
        raise BadRequest(f"{name} is {_shown(value)}: give a whole number from {least} to {most}{why}.")
    return value


def _body(request: Request) -> dict[str, Any]:
    data = _received(request)
    if len(data) > LARGEST_BODY:  # in chunks, which werkzeug cuts off and does not refuse
        raise RequestEntityTooLarge
    if not data:
        return {}
    if not request.is_json:
        raise UnsupportedMediaType(_instead(request, data))
    try:
        members = json.loads(data, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise BadRequest('The body is not JSON: send an object such as {"stock": 300}, or no body at all.') from None
    if not isinstance(members, dict):
        raise BadRequest('The body is not a JSON object: send one such as {"stock": 300}, or no body at all.')
    return members


def _instead(request: Request, data: bytes) -> str:
    """A command that sends `data` as JSON or as a query, because ``curl -d`` sends a form."""
    advice, text = "Send the body as JSON, with the header 'Content-Type: application/json'", data.decode("latin-1")
    if re.fullmatch(r"[\w=&.,%+-]{1,200}", text, re.ASCII):
        return f"{advice}; or without a body: curl -X POST '{request.base_url}?{text}'"
    if re.fullmatch(r"\{[ -&(-~]{1,200}\}", text):  # without a quotation mark
        return f"{advice}: curl -H 'Content-Type: application/json' -d '{text}' '{request.base_url}'"
    return f"{advice}."


def _received(request: Request) -> bytes:
    """The whole body; raises `RequestTimeout` or `BadRequest` if a part of it is missing."""
    try:
        data = request.get_data(cache=False)
    except ClientDisconnected:  # a body in chunks
        data = None
    except ParseException as error:
        raise BadRequest(f"The body does not come in proper chunks: {error}.") from None
    if data is None or len(data) < (request.content_length or 0):
        raise RequestTimeout("The body broke off: send all of it at once, or none.")
    return data


def _once(given: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Values by name; raises `BadRequest` for a second value of the same name."""
    values: dict[str, Any] = {}
    for name, value in given:
        if name in values:
            raise BadRequest(
                f"{_shown(name)} is given more than once: give one value, in the query or in the body "
                "(a list, where one is taken, is 1,4 or [1, 4])."
            )
        values[name] = value
    return values


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _shown(value: Any) -> str:
    """A value for an error message: short, in ASCII."""
    return ascii(value)[:80]
