"""The scheduled opening over HTTP, and a candidate for its leader in each worker process.

``FLASHSALE_OPENER`` is "fenced" (the default) if the leader that opens the sale sends its token, so that Redis refuses
a late leader, or "unfenced".

The core knows a closed sale as one that is sold out. So what it answers is looked at here: "sold out" becomes "not
open" if the sale was closed when the buyer clicked, also in an answer that was kept for an Idempotency-Key.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import redis
from flask import Flask, Response, g, request
from werkzeug.exceptions import BadRequest, Conflict

from app import services
from app.config.environment import EnvironmentSettings
from app.config.settings import MOST_ITEMS
from app.contract.outcomes import Outcome
from app.sales.refusals import sentence
from app.web.access import require_admin
from app.web.params import Parameters
from app.web.responses import json_response, problem_response
from labs.opening.schedule import Closed, NotScheduled, Opener, OpeningSchedule, rfc3339
from lock import Election

LONGEST_WAIT_S = 86_400  # until a sale opens
LONGEST_RETRY_AFTER_S = 60  # or a client misses a new schedule
BUY, LOOK = "/stock/reduce", "/stock"
NOT_OPEN = "not_open"
OWN = ("outcome", "in_doubt", "item", "guard", "order", "token", "waited_ms", "held_ms")
NOTHING_KNOWN = {"order": None, "stock": None, "token": None, "waited_ms": 0.0, "held_ms": 0.0}


def init_app(app: Flask) -> None:
    """Register the routes of the schedule, and have the opener run with each worker process."""
    shop = services.of(app)
    opener = OpeningSettings.from_environment().opener
    schedule = app.extensions["schedule"] = OpeningSchedule(shop.sale, shop.settings.sale)
    shop.background.append(
        Opener(schedule, shop.sessions.session, instance=shop.settings.instance, is_fenced=opener == "fenced")
    )
    routes = ScheduleRoutes(shop, schedule)
    app.add_url_rule("/sale", view_func=routes.show, methods=["GET"])
    app.add_url_rule("/sale/schedule", view_func=routes.set, methods=["POST"])
    app.add_url_rule("/sale/schedule", view_func=routes.cancel, methods=["DELETE"])
    app.before_request(routes.refuse_early)
    app.after_request(routes.correct_sold_out)


class OpeningSettings(EnvironmentSettings):
    """How the leader opens the sale."""

    opener: Literal["fenced", "unfenced"] = "fenced"


@dataclass(frozen=True)
class ScheduleRoutes:
    """The routes of the schedule, and what becomes of purchases before the opening."""

    shop: services.Services
    schedule: OpeningSchedule

    def refuse_early(self) -> Response | None:
        """Refuse a purchase of a sale that is known to be closed: it need not wait for a lock."""
        if request.path != BUY:
            return None
        g.clicked = time.monotonic()
        closed = None
        with suppress(redis.RedisError):  # the purchase will meet it, too
            closed = self.schedule.read() if self.schedule.was_early(g.clicked) else None
        if closed is None:
            return None
        return _not_open(
            closed, {"guard": request.args.get("guard"), "item": request.args.get("item"), **NOTHING_KNOWN}
        )

    def correct_sold_out(self, response: Response) -> Response:
        """Turn "sold out" into "not open", and the refusal of a purchase that has waited over the opening.

        Whoever looks at the stock, as the board does every second, has this process learn whether the sale is open.
        """
        if request.path == LOOK:
            with suppress(redis.RedisError):
                self.schedule.was_early(time.monotonic())
        if request.path != BUY or response.status_code not in (409, 503):
            return response
        body = response.get_json()
        if body.get("outcome") not in (Outcome.SOLD_OUT, Outcome.LOCK_LOST):
            return response
        try:
            return _not_open(self.schedule.read(), body) if self.schedule.was_early(g.clicked) else response
        except redis.RedisError as error:
            detail = f"{sentence(error)} Nothing was written; try again."
            known = body | {"outcome": "unavailable", "in_doubt": False}
            return problem_response(
                503, detail, kind="unavailable", **{name: known[name] for name in OWN if name in known}
            )

    def show(self) -> Response:
        """``GET /sale``: open, scheduled or closed, and the leader."""
        shop = self.shop
        stock = shop.sale.snapshot().initial  # opens the sale if it never was
        leader = Election(shop.sessions.session(), self.schedule.election).leader()
        lead = {"leader": leader and leader.value}
        if (closed := self.schedule.read()) is None:
            at_ms = self.schedule.opened_at_ms()
            return json_response({"state": "open", "opened_at": at_ms and rfc3339(at_ms), "stock": stock, **lead})
        if closed.opens_in_s is None:
            return json_response({"state": "closed", "stock": closed.stock, **lead})
        opens = {"opens_at": closed.opens_at, "opens_in_s": round(max(closed.opens_in_s, 0.0), 3)}
        return json_response({"state": "scheduled", **opens, "stock": closed.stock, **lead})

    def set(self) -> Response:
        """``POST /sale/schedule``: close the sale until a set time."""
        require_admin(self.shop.settings, "schedules")
        parameters = Parameters(request, "stock", "opens_at", "opens_in_s")
        stock = parameters.whole("stock", self.shop.settings.stock, most=MOST_ITEMS)
        try:
            self.schedule.set(stock, _opens_at_ms(parameters, self.schedule.sale.now_us() // 1000))
        except NotScheduled as error:
            raise Conflict(f"{error}.") from error
        return self.show()

    def cancel(self) -> Response:
        """``DELETE /sale/schedule``: leave the sale closed until it is reset or scheduled again."""
        require_admin(self.shop.settings, "schedules")
        try:
            self.schedule.cancel()
        except NotScheduled as error:
            raise Conflict(f"{error}.") from error
        return self.show()


def _not_open(closed: Closed | None, body: dict[str, object]) -> Response:
    """The answer to a purchase before the opening, with when to come back; at once if it has opened since the click."""
    known = {name: body[name] for name in ("item", "guard", *NOTHING_KNOWN) if name in body}
    opens_at = closed.opens_at if closed else None
    when = "The sale has just opened" if closed is None else f"The sale opens at {opens_at or 'a time that is not set'}"
    members = {**known, "stock": None, "outcome": NOT_OPEN, "opens_at": opens_at}
    response = problem_response(409, f"{when}. Nothing was written; come back then.", kind=NOT_OPEN, **members)
    wait_s = 0.0 if closed is None else LONGEST_RETRY_AFTER_S if closed.opens_in_s is None else closed.opens_in_s
    response.headers["Retry-After"] = str(math.ceil(min(max(wait_s, 1), LONGEST_RETRY_AFTER_S)))
    return response


def _opens_at_ms(parameters: Parameters, now_ms: int) -> int:
    """The time of the opening in milliseconds since the epoch, given as a time or in seconds from now."""
    if parameters.has("opens_at") == parameters.has("opens_in_s"):
        raise BadRequest('Give either opens_in_s, such as 5, or opens_at, such as "2026-11-22T12:00:00Z".')
    if parameters.has("opens_in_s"):
        return now_ms + parameters.whole("opens_in_s", 0, least=1, most=LONGEST_WAIT_S) * 1000
    text = parameters.text("opens_at", "")
    try:
        at = datetime.fromisoformat(text.upper().replace("Z", "+00:00"))  # Python 3.10 does not know the Z
    except ValueError:
        at = datetime.min
    at_ms = 0 if at.tzinfo is None else int(at.timestamp() * 1000)
    if not now_ms < at_ms <= now_ms + LONGEST_WAIT_S * 1000:
        raise BadRequest(
            f"opens_at is {text!r}: give a time in the next 24 hours with its zone, such as 2026-11-22T12:00:00Z."
        )
    return at_ms
