"""The board's controls: reset the sale, start a rush, freeze or kill an instance."""

from __future__ import annotations

from contextlib import suppress

from flask import Flask, Response, request
from werkzeug.exceptions import NotFound

from app.board.live.sampler import Sampler
from app.board.settings import BoardSettings
from app.board.sources.locust import UNREACHABLE, RushClient, RushRunning
from app.board.sources.stack_client import ACTIONS, StackClient, StackRefused
from app.board.web.security import authorize
from app.config.etcd import connect_etcd
from app.config.settings import MOST_ITEMS
from app.guards import DEFAULT, guards
from app.sales.redis_client import connect
from app.sales.sale import Sale
from app.web.params import Parameters
from app.web.responses import json_response, problem_response
from app.web.routes import LONGEST_HOLD_MS

MOST_BUYERS = 10_000


def init_app(
    app: Flask, settings: BoardSettings, sampler: Sampler, *, stack: StackClient | None, locust: RushClient
) -> None:
    """Register the routes that change the sale, Locust or an instance."""
    shop = settings.shop
    client, etcd = connect(shop.redis_url, connections=1), connect_etcd(shop)
    sale = Sale(client, shop.sale, etcd=etcd, stock=shop.stock, items=shop.items)

    @app.errorhandler(RushRunning)
    def busy(error: RushRunning) -> Response:
        return problem_response(409, str(error), kind="rush_running")

    @app.errorhandler(StackRefused)
    def refused(error: StackRefused) -> Response:
        return problem_response(409, str(error), kind="stack_refused")

    @app.post("/control/reset")
    def reset() -> Response:
        """Reset the sale without an instance, which may be busy or frozen."""
        authorize(settings)
        stock = Parameters(request, "stock").whole("stock", shop.stock, most=MOST_ITEMS)
        with suppress(*UNREACHABLE):  # without Locust no rush is running
            locust.require_idle()
        sale.reset(stock)
        return json_response({"done": f"The sale begins again with a stock of {stock}."})

    @app.post("/control/rush")
    def rush() -> Response:
        """Start a rush in Locust."""
        authorize(settings)
        parameters = Parameters(request, "guard", "buyers", "stock", "hold_ms")
        guard = parameters.choice("guard", DEFAULT, guards())
        buyers = parameters.whole("buyers", 500, least=1, most=MOST_BUYERS)
        stock = parameters.whole("stock", shop.stock, most=MOST_ITEMS)
        hold_ms = parameters.whole("hold_ms", 0, most=LONGEST_HOLD_MS)
        try:
            locust.require_idle()
            with sampler.expecting(guard=guard, buyers=buyers, stock=stock):
                locust.start(guard=guard, buyers=buyers, stock=stock, hold_ms=hold_ms)
        except UNREACHABLE as error:
            return problem_response(503, f"Locust does not answer at {locust.url} ({error}).", kind="locust_away")
        return json_response({"done": f"The buyers come, under {guard}."})

    @app.post("/control/instance")
    def instance() -> Response:
        """Freeze, thaw, kill or start one of the local stack's instances."""
        authorize(settings)
        parameters = Parameters(request, "instance", "action")
        name, action = parameters.text("instance", ""), parameters.choice("action", "", ACTIONS)
        if stack is None or not settings.on_loopback:
            raise NotFound("Only a board that was started with its stack on this machine can do that: make up.")
        try:
            return json_response({"done": stack.act(action, name)})
        except (OSError, ValueError) as error:
            return problem_response(503, f"The stack does not answer ({error}).", kind="stack_away")
