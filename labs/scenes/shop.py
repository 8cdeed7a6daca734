"""Purchases that stand still between their check and their write, for the scenes.

``POST /scenes/reduce`` is ``POST /stock/reduce`` with a gate before the write. ``GET /scenes/held`` shows which
purchases stand there, ``POST /scenes/open`` lets them write, and ``DELETE /scenes/held`` has them give up.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from flask import Flask, Response, request

from app import services
from app.contract.keys import DEFAULT_ITEM
from app.guards import DEFAULT
from app.sales.purchase import Purchase, PurchaseListener, Section
from app.sales.refusals import EXPECTED, refuse
from app.telemetry.guard_lines import GuardLines
from app.web.access import require_admin
from app.web.params import Parameters
from app.web.responses import json_response
from app.web.routes import answer
from lock import LockTimeout

PATH = "/scenes"
TICK_S = 0.1
TICKS = 300  # that a purchase stands there at most; none passes while its process is frozen


class NotOpened(LockTimeout):
    """The gate stayed closed, or was given up; nothing was written."""


class Gate:
    """Where purchases stand until it is opened; background work of the shop, whose drain waits for none of them."""

    def __init__(self, ticks: int = TICKS) -> None:
        self._ticks = ticks
        self._lock = threading.Lock()
        self._given_up = False
        self._decided = threading.Event()  # of those that stand there now
        self._held: dict[str, dict[str, Any]] = {}

    def pass_through(self, section: Section, line: int | None) -> None:
        """Stand there; raises NotOpened."""
        purchase = section.purchase
        with self._lock:
            decided, self._given_up = self._decided, False
            self._held[purchase.order] = {
                "buyer": purchase.buyer,
                "guard": purchase.guard,
                "item": purchase.item,
                "token": section.token,
                "line": line,
            }
        try:
            if not any(decided.wait(TICK_S) for _ in range(self._ticks)) or self._given_up:
                raise NotOpened("the scene did not let this purchase write")
        finally:
            self._held.pop(purchase.order, None)

    def held(self) -> list[dict[str, Any]]:
        return list(self._held.values())

    def open(self) -> None:
        """Let those that stand there write."""
        self._decide(given_up=False)

    def close(self) -> None:
        """Have those that stand there give up."""
        self._decide(given_up=True)

    def start(self) -> None: ...

    def _decide(self, *, given_up: bool) -> None:
        with self._lock:
            decided, self._decided, self._given_up = self._decided, threading.Event(), given_up
        decided.set()


class HeldPurchase(PurchaseListener):
    """Holds a purchase at the gate, after the guard's check; `inner` is the instance's ordinary listener."""

    def __init__(self, gate: Gate, lines: GuardLines, inner: PurchaseListener) -> None:
        self._gate, self._lines, self._inner = gate, lines, inner

    def locked(self, section: Section) -> None:
        self._inner.locked(section)

    def read(self, section: Section) -> None:
        self._inner.read(section)

    def think(self, section: Section) -> None:
        self._inner.think(section)

    def write(self, section: Section) -> None:
        self._gate.pass_through(section, self._lines.line_of(sys._getframe()))
        self._inner.write(section)

    def left(self, section: Section, error: BaseException | None) -> None:
        self._inner.left(section, error)


def init_app(app: Flask) -> None:
    """Register the routes; who may play a scene is who may reset."""
    shop = services.of(app)
    gate = Gate()
    shop.background.append(gate)
    lines = {name: GuardLines(type(guard).buy) for name, guard in shop.guards.items()}

    @app.get(f"{PATH}/held")
    def show_held() -> Response:
        return json_response({"held": gate.held()})

    @app.post(f"{PATH}/reduce")
    def reduce_held() -> Response:
        """Buy one item, and stand at the gate before the write."""
        require_admin(shop.settings, "scenes")
        parameters = Parameters(request, "guard", "item", "buyer")
        guard = parameters.choice("guard", DEFAULT, shop.guards)
        purchase = Purchase(
            buyer=parameters.text("buyer", "anonymous"),
            guard=guard,
            item=str(parameters.whole("item", int(DEFAULT_ITEM), least=1, most=shop.settings.items)),
            instance=shop.settings.instance,
            listener=HeldPurchase(gate, lines[guard], shop.listener),
        )
        try:
            receipt = shop.guards[guard].serve(purchase)
        except EXPECTED as error:
            receipt = refuse(purchase, error)
        return answer(purchase, receipt)

    @app.post(f"{PATH}/open")
    def open_gate() -> Response:
        require_admin(shop.settings, "scenes")
        gate.open()
        return show_held()

    @app.delete(f"{PATH}/held")
    def give_up() -> Response:
        require_admin(shop.settings, "scenes")
        gate.close()
        return show_held()
