"""``busy``: the answer to a purchase for which an instance has no room, ready before the purchase comes.

Thousands may be due at once, when the purchases in hand need the processor. So `app.server.worker` sends these bytes by
itself: no thread, guard or lock sees the request.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from urllib.parse import parse_qsl

from flask import Flask

from app import services
from app.contract.outcomes import Outcome
from app.guards import DEFAULT
from app.web.responses import problem_response

BUSY = Outcome.BUSY.value
DETAIL = "Too many buyers are waiting at this instance. Nothing was written; try again later, or at another instance."
_LINE = re.compile(rb"POST (\S+?)(?:\?(\S*))? HTTP/1\.[01]\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,5})[ \t]*\r\n", re.IGNORECASE)


class BusyAnswers:
    """The answers of the instance `app`, one for each guard; each is counted when it is given."""

    def __init__(self, app: Flask) -> None:
        made = services.of(app)
        self._sellers = made.sellers
        with app.app_context():
            names = [*made.guards, *filter(None, self._sellers.values())]
            self._answer_of = {name: _busy(name) for name in names}
        self._metrics = made.metrics

    def answer(self, received: bytes) -> bytes | None:
        """The response if `received` is one whole purchase; None for all else, which the routes have to answer."""
        head, end, body = received.partition(b"\r\n\r\n")
        line, length = _LINE.match(received), _LENGTH.search(head + b"\r\n")
        if line is None or not end or len(body) != int(length[1] if length else 0):
            return None
        path, query = line[1].decode("latin-1"), (line[2] or b"").decode("latin-1")
        if path not in self._sellers:
            return None
        asked = dict(parse_qsl(query))
        with suppress(ValueError, TypeError, RecursionError):  # no body, or not a JSON object
            asked |= json.loads(body)
        name = self._sellers[path] or str(asked.get("guard", DEFAULT))
        if answer := self._answer_of.get(name):
            self._metrics.purchases.labels(name, BUSY).inc()
        return answer


def _busy(guard: str) -> bytes:
    """As every refusal of a purchase, but without the item, which was not looked at."""
    seen = {"order": None, "stock": None, "token": None, "waited_ms": 0.0, "held_ms": 0.0}
    response = problem_response(503, DETAIL, kind=BUSY, outcome=BUSY, guard=guard, **seen)
    response.headers["Connection"] = "close"  # so that the next buyer can connect
    head = "".join(f"{name}: {value}\r\n" for name, value in response.headers)
    return f"HTTP/1.1 503 Service Unavailable\r\n{head}\r\n".encode("latin-1") + response.get_data()
