"""The scheduled opening over HTTP: the time, the leader, and when the sale was opened."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import Conflict

from app.config.settings import MOST_ITEMS, Settings
from app.locking.etcd_sessions import EtcdSessions
from app.sales.opening import Opened
from app.sales.sale import Sale
from app.sales.schedule import NoSchedule, Schedule
from app.web.access import require_admin
from app.web.params import Parameters
from app.web.responses import json_response
from lock import Election

LONGEST_WAIT_S = 86_400


@dataclass(frozen=True)
class ScheduleRoutes:
    """The routes of the schedule; `opener` is the name of the election."""

    settings: Settings
    sale: Sale
    schedule: Schedule
    sessions: EtcdSessions
    opener: str

    def show(self) -> Response:
        """``GET /sale``: open, scheduled or closed, and the leader."""
        self.sale.snapshot()  # opens the sale if it never was
        opened = self.schedule.read() or Opened("", self.settings.stock)
        leader = Election(self.sessions.session(), self.opener).leader()
        return json_response({**self._shown(opened), "stock": opened.stock, "leader": leader and leader.value})

    def _shown(self, opened: Opened) -> dict[str, Any]:
        if opened.is_open:
            at_ms = self.schedule.opened_at_ms(opened)
            return {"state": "open", "opened_at": at_ms and opened._replace(opens_at_ms=at_ms).opens_at}
        if opened.opens_at_ms is None:
            return {"state": "closed"}
        left_s = max(opened.opens_at_ms / 1000 - time.time(), 0.0)
        return {"state": "scheduled", "opens_at": opened.opens_at, "opens_in_s": round(left_s, 3)}

    def set(self) -> Response:
        """``POST /sale/schedule``: close the sale until a set time."""
        self._require_admin()
        asked = Parameters(request, "stock", "opens_in_s")
        stock = asked.whole("stock", self.settings.stock, most=MOST_ITEMS)
        opens_in_s = asked.whole("opens_in_s", 0, least=1, most=LONGEST_WAIT_S)
        self.schedule.set(stock, time.time_ns() // 1_000_000 + opens_in_s * 1000)
        return self.show()

    def cancel(self) -> Response:
        """``DELETE /sale/schedule``: leave the sale closed until it is reset or scheduled again."""
        self._require_admin()
        try:
            self.schedule.cancel()
        except NoSchedule as error:
            raise Conflict(f"{error}.") from error
        return self.show()

    def _require_admin(self) -> None:
        require_admin(self.settings.admin_token, on_loopback=self.settings.on_loopback, what="schedules")


def init_app(app: Flask, routes: ScheduleRoutes) -> None:
    """Register the routes of the schedule."""
    app.add_url_rule("/sale", view_func=routes.show, methods=["GET"])
    app.add_url_rule("/sale/schedule", view_func=routes.set, methods=["POST"])
    app.add_url_rule("/sale/schedule", view_func=routes.cancel, methods=["DELETE"])
