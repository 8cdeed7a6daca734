"""The board's controls: reset the sale, start a rush, freeze or kill an instance."""

from __future__ import annotations

from contextlib import suppress

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from app.board import parts
from app.board.sources.locust import UNREACHABLE, RushRunning
from app.board.sources.stack_client import ACTIONS, StackRefused
from app.board.web.security import authorize
from app.config.settings import MOST_ITEMS
from app.guards import DEFAULT, guards
from app.web.params import Parameters
from app.web.responses import json_response, problem_response
from app.web.routes import LONGEST_HOLD_MS

MOST_BUYERS = 10_000


controls = Blueprint("controls", __name__)


@controls.app_errorhandler(RushRunning)
def busy(error: RushRunning) -> Response:
    """A rush is running, which what was asked for would disturb."""
    return problem_response(409, str(error), kind="rush_running")


@controls.app_errorhandler(StackRefused)
def refused(error: StackRefused) -> Response:
    """The local stack does not do it."""
    return problem_response(409, str(error), kind="stack_refused")


@controls.post("/control/reset")
def reset() -> Response:
    """Reset the sale without an instance, which may be busy or frozen."""
    board = parts.of_board()
    authorize(board.settings)
    stock = Parameters(request, "stock").whole("stock", board.settings.shop.stock, most=MOST_ITEMS)
    with suppress(*UNREACHABLE):  # without Locust no rush is running
        board.locust.require_idle()
    board.sale.reset(stock)
    return json_response({"done": f"The sale begins again with a stock of {stock}."})


@controls.post("/control/rush")
def rush() -> Response:
    """Start a rush in Locust."""
    board = parts.of_board()
    authorize(board.settings)
    parameters = Parameters(request, "guard", "buyers", "stock", "hold_ms")
    guard = parameters.choice("guard", DEFAULT, guards())
    buyers = parameters.whole("buyers", 500, least=1, most=MOST_BUYERS)
    stock = parameters.whole("stock", board.settings.shop.stock, most=MOST_ITEMS)
    hold_ms = parameters.whole("hold_ms", 0, most=LONGEST_HOLD_MS)
    try:
        board.locust.require_idle()
        with board.sampler.expecting(guard=guard, buyers=buyers, stock=stock):
            board.locust.start(guard=guard, buyers=buyers, stock=stock, hold_ms=hold_ms)
    except UNREACHABLE as error:
        return problem_response(503, f"Locust does not answer at {board.locust.url} ({error}).", kind="locust_away")
    return json_response({"done": f"The buyers come, under {guard}."})


@controls.post("/control/instance")
def instance() -> Response:
    """Freeze, thaw, kill or start one of the local stack's instances."""
    board = parts.of_board()
    authorize(board.settings)
    parameters = Parameters(request, "instance", "action")
    name, action = parameters.text("instance", ""), parameters.choice("action", "", ACTIONS)
    if board.stack is None or not board.settings.on_loopback:
        raise NotFound("Only a board that was started with its stack on this machine can do that: make up.")
    try:
        return json_response({"done": board.stack.act(action, name)})
    except (OSError, ValueError) as error:
        return problem_response(503, f"The stack does not answer ({error}).", kind="stack_away")
