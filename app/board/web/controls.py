"""The board's controls: reset the sale, start a rush, freeze or kill an instance."""

from __future__ import annotations

from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest, Conflict, NotFound

from app.board.settings import BoardSettings
from app.board.sources.locust import UNREACHABLE, Locust, LocustBusy
from app.board.sources.stack_client import ACTIONS, StackClient, StackRefused
from app.config.settings import MOST_ITEMS
from app.guards import GUARDS
from app.sales.opening import OpeningRecord
from app.sales.redis_client import connect
from app.sales.sale import Sale
from app.web.access import require_admin
from app.web.params import Parameters
from app.web.responses import json_response, problem_response
from app.web.routes import LONGEST_HOLD_MS
from lock import connect as connect_etcd

MOST_BUYERS = 10_000


class Controls:
    """The routes that change the sale, Locust or an instance."""

    def __init__(self, settings: BoardSettings, *, stack: StackClient | None, locust: Locust) -> None:
        shop = settings.shop
        self._settings = settings
        self._stack = stack
        self._locust = locust
        client = connect(shop.redis_url, connections=1)
        record = OpeningRecord(connect_etcd(shop.etcd_endpoints), shop.sale)
        stock, items, shards = shop.stock, shop.items, shop.shards
        self._sale = Sale(client, shop.sale, record=record, stock=stock, items=items, shards=shards)

    def reset(self) -> Response:
        """``POST /control/reset``: reset the sale without an instance, which may be busy or frozen."""
        self._authorize()
        stock = Parameters(request, "stock").whole("stock", self._settings.shop.stock, most=MOST_ITEMS)
        try:
            self._locust.require_idle()
        except LocustBusy as busy:
            raise Conflict(str(busy)) from busy
        except UNREACHABLE:
            pass  # without Locust no rush is running
        self._sale.reset(stock)
        return json_response({"done": f"The sale begins again with a stock of {stock}."})

    def rush(self) -> Response:
        """``POST /control/rush``: start a rush in Locust."""
        self._authorize()
        asked = Parameters(request, "guards", "buyers", "stock", "hold_ms")
        guards = [_known(guard) for guard in asked.text("guards", "none,etcd").split(",")]
        buyers = asked.whole("buyers", 500, most=MOST_BUYERS)
        if not buyers:
            raise BadRequest("buyers is 0: give a whole number from 1.")
        stock = asked.whole("stock", self._settings.shop.stock, most=MOST_ITEMS)
        hold_ms = asked.whole("hold_ms", 0, most=LONGEST_HOLD_MS)
        try:
            self._locust.start(guards=guards, buyers=buyers, stock=stock, hold_ms=hold_ms)
        except LocustBusy as busy:
            raise Conflict(str(busy)) from busy
        except UNREACHABLE as error:
            return problem_response(503, f"Locust does not answer at {self._locust.url} ({error}).", kind="locust_away")
        return json_response({"done": f"The buyers come, under {' and then '.join(guards)}."})

    def instance(self) -> Response:
        """``POST /control/instance``: freeze, thaw, kill or start one of the local stack's instances."""
        self._authorize()
        asked = Parameters(request, "instance", "action")
        name, action = asked.text("instance", ""), asked.choice("action", "", ACTIONS)
        if self._stack is None or not self._settings.on_loopback:
            raise NotFound("Only a board that was started with its stack on this machine can do that: make up.")
        try:
            return json_response({"done": self._stack.act(action, name)})
        except StackRefused as refused:
            raise Conflict(str(refused)) from refused
        except (OSError, ValueError) as error:
            return problem_response(503, f"The stack does not answer ({error}).", kind="stack_away")

    def _authorize(self) -> None:
        require_admin(
            self._settings.shop.admin_token, on_loopback=self._settings.on_loopback, what="controls on the board"
        )


def _known(guard: str) -> str:
    names = [known.name for known in GUARDS]
    if guard not in names:
        raise BadRequest(f"guards has {guard!a:.80}: give some of {', '.join(names)}, separated by commas.")
    return guard


def init_app(app: Flask, controls: Controls) -> None:
    """Register the controls."""
    app.add_url_rule("/control/reset", view_func=controls.reset, methods=["POST"])
    app.add_url_rule("/control/rush", view_func=controls.rush, methods=["POST"])
    app.add_url_rule("/control/instance", view_func=controls.instance, methods=["POST"])
