"""The scheduled opening over HTTP, and a candidate for its leader in each worker process.

``FLASHSALE_OPENER`` is "fenced" (the default) if the leader that opens the sale sends its token, so that Redis refuses
a late leader, or "unfenced".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest, Conflict

from app import services
from app.config.environment import EnvironmentSettings
from app.config.settings import MOST_ITEMS
from app.sales.opening import Opened
from app.web.params import Parameters
from app.web.responses import json_response
from app.web.routes import Routes
from labs.opening.schedule import NoSchedule, Opener, Schedule
from lock import Election

LONGEST_WAIT_S = 86_400  # until a sale opens


def init_app(app: Flask) -> None:
    """Register the routes of the schedule, and have the opener run with each worker process."""
    shop = services.of(app)
    opener = OpeningSettings.from_environment().opener
    schedule = Schedule(shop.sale)
    shop.background.append(
        Opener(schedule, shop.sessions.session, instance=shop.settings.instance, is_fenced=opener == "fenced")
    )
    routes = ScheduleRoutes(Routes(shop), schedule)
    app.add_url_rule("/sale", view_func=routes.show, methods=["GET"])
    app.add_url_rule("/sale/schedule", view_func=routes.set, methods=["POST"])
    app.add_url_rule("/sale/schedule", view_func=routes.cancel, methods=["DELETE"])


class OpeningSettings(EnvironmentSettings):
    """How the leader opens the sale."""

    opener: Literal["fenced", "unfenced"] = "fenced"


@dataclass(frozen=True)
class ScheduleRoutes:
    """The routes of the schedule."""

    routes: Routes
    schedule: Schedule

    def show(self) -> Response:
        """``GET /sale``: open, scheduled or closed, and the leader."""
        shop = self.routes.shop
        shop.sale.snapshot()  # opens the sale if it never was
        opened = self.schedule.read() or Opened("", shop.settings.stock)
        leader = Election(shop.sessions.session(), self.schedule.election).leader()
        return json_response({**self._shown(opened), "stock": opened.stock, "leader": leader and leader.value})

    def _shown(self, opened: Opened) -> dict[str, Any]:
        if opened.is_open:
            at_ms = self.schedule.opened_at_ms(opened)
            return {"state": "open", "opened_at": at_ms and opened._replace(opens_at_ms=at_ms).opens_at}
        if opened.opens_at_ms is None:
            return {"state": "closed"}
        left_s = max(self.schedule.left_s(opened), 0.0)
        return {"state": "scheduled", "opens_at": opened.opens_at, "opens_in_s": round(left_s, 3)}

    def set(self) -> Response:
        """``POST /sale/schedule``: close the sale until a set time."""
        self.routes.require_admin("schedules")
        asked = Parameters(request, "stock", "opens_at", "opens_in_s")
        stock = asked.whole("stock", self.routes.shop.settings.stock, most=MOST_ITEMS)
        self.schedule.set(stock, _opens_at_ms(asked, round(self.schedule.sale.now_s() * 1000)))
        return self.show()

    def cancel(self) -> Response:
        """``DELETE /sale/schedule``: leave the sale closed until it is reset or scheduled again."""
        self.routes.require_admin("schedules")
        try:
            self.schedule.cancel()
        except NoSchedule as error:
            raise Conflict(f"{error}.") from error
        return self.show()


def _opens_at_ms(asked: Parameters, now_ms: int) -> int:
    """The time of the opening in milliseconds since the epoch, given as a time or in seconds from now."""
    if asked.has("opens_at") == asked.has("opens_in_s"):
        raise BadRequest('Give either opens_in_s, such as 5, or opens_at, such as "2026-11-22T12:00:00Z".')
    if asked.has("opens_in_s"):
        return now_ms + asked.whole("opens_in_s", 0, least=1, most=LONGEST_WAIT_S) * 1000
    text = asked.text("opens_at", "")
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
