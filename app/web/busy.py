"""``busy``: the answer to a purchase for which an instance has no room, ready before the purchase comes.

Many thousands of them may be due at once, just when the purchases in hand need the processor. So the worker sends these
bytes itself (`app.server.worker`): no thread, no guard and no lock ever sees the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import parse_qsl

from flask import Flask, Response

from app.guards import DEFAULT
from app.sales.purchase import CART, Outcome
from app.telemetry.metrics import Metrics
from app.web.responses import problem_response

_LINE = re.compile(rb"POST (/stock/reduce|/cart)(?:\?(\S*))? HTTP/1\.[01]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,5})[ \t]*\r\n", re.IGNORECASE)
_DETAIL = (
    "More buyers are waiting at this instance than it can serve in time. Nothing was written; "
    "try again after Retry-After, or at another instance."
)


class BusyAnswers:
    """The answers of one instance, one for each guard; each is counted when it is given.

    Args:
        app: names the instance.
        guards: all that can be asked for.
    """

    def __init__(self, app: Flask, guards: Iterable[str], metrics: Metrics) -> None:
        with app.app_context():
            self._answer_of = {guard: _encode(_busy(guard)) for guard in (*guards, CART)}
        self._metrics = metrics

    def answer(self, received: bytes) -> bytes | None:
        """The response, if `received` is one whole purchase; None for all else, which the routes have to answer."""
        line, (head, end, body) = _LINE.match(received), received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        if line is None or not end or len(body) != int(length[1] if length else 0):
            return None
        asked = dict(parse_qsl((line[2] or b"").decode("latin-1")))
        with suppress(ValueError):  # an empty body, or one that is not JSON
            asked |= dict(json.loads(body))
        guard = CART if line[1] == b"/cart" else str(asked.get("guard", DEFAULT))
        if answer := self._answer_of.get(guard):
            self._metrics.purchases.labels(guard, Outcome.BUSY.value).inc()
        return answer


def _busy(guard: str) -> Response:
    """As every answer to a purchase. It does not name the item: the item was not looked at."""
    outcome = Outcome.BUSY.value
    seen = {"order": None, "stock": None, "token": None, "waited_ms": 0.0, "held_ms": 0.0}
    return problem_response(503, _DETAIL, kind=outcome, outcome=outcome, guard=guard, **seen)


def _encode(response: Response) -> bytes:
    response.headers["Connection"] = "close"  # so that the next buyer can connect
    head = "".join(f"{name}: {value}\r\n" for name, value in response.headers)
    return f"HTTP/1.1 {response.status.title()}\r\n{head}\r\n".encode("latin-1") + response.get_data()
