"""Purchases that stand still between their check and their write, for the scenes.

``POST /scenes/reduce`` is ``POST /stock/reduce`` with a gate before the write. ``GET /scenes/held`` shows which
purchases stand there, ``POST /scenes/open`` lets them write, and ``DELETE /scenes/held`` has them give up.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from flask import Blueprint, Flask, Response, current_app, request

from app import services
from app.contract.keys import DEFAULT_ITEM
from app.guards import DEFAULT
from app.guards.base import Guard
from app.sales.purchase import Purchase, PurchaseListener, Section
from app.sales.refusals import EXPECTED, refuse
from app.services import Services
from app.telemetry.guard_lines import GuardLines
from app.web.access import require_admin
from app.web.params import Parameters
from app.web.responses import json_response
from app.web.routes import answer
from lock import LockTimeout

TICK_S = 0.1
TICKS = 300  # that a purchase stands there at most; none passes while its process is frozen

scenes = Blueprint("scenes", __name__, url_prefix="/scenes")


class NotOpened(LockTimeout):
    """The gate stayed closed, or was given up; nothing was written."""


class HeldPurchase(PurchaseListener):
    """Has a purchase stand before its write, after the guard's check.

    Attributes:
        shown: what is shown of it: its item and token, and the lines of its guard from the lock to the write.
        decisions: whether it may write.
    """

    def __init__(self, shop: Services, guard: Guard, held: dict[str, HeldPurchase]) -> None:
        self._shop, self._lines, self._inner, self._held = shop, GuardLines(type(guard).buy), shop.listener, held
        self.read, self.think, self.left = self._inner.read, self._inner.think, self._inner.left  # type: ignore[method-assign]
        self.shown: dict[str, Any] = {}
        self.decisions: SimpleQueue[bool] = SimpleQueue()

    def locked(self, section: Section) -> None:
        self.shown["lock"] = self._lines.line_of(sys._getframe())
        self._inner.locked(section)

    def write(self, section: Section) -> None:
        purchase, whole, first = section.purchase, self._lines.source, self.shown["lock"]
        last = self._lines.line_of(sys._getframe()) or first
        lines = whole.text.splitlines(keepends=True)[first - whole.first_line : last - whole.first_line + 1]
        source = {"file": whole.file, "first_line": first, "text": "".join(lines)}
        self.shown |= {"item": purchase.item, "token": section.token, "write": last, "source": source}
        self._held[purchase.order] = self
        try:
            if not self._is_let_through():
                raise NotOpened("the scene did not let this purchase write")
        finally:
            del self._held[purchase.order]
        self._inner.write(section)

    def _is_let_through(self) -> bool:
        for _ in range(TICKS):
            self._shop.sessions.check_open()  # a drain waits for no scene
            with suppress(Empty):
                return self.decisions.get(timeout=TICK_S)
        return False


@scenes.get("/held")
def show_held() -> Response:
    """The purchases that stand at the gate."""
    return json_response({"held": [each.shown for each in list(current_app.extensions["scenes"].values())]})


@scenes.post("/reduce")
def reduce_held() -> Response:
    """Buy one item, and stand at the gate before the write; who may play a scene is who may reset."""
    shop = services.of(current_app)
    require_admin(shop.settings, "scenes")
    parameters = Parameters(request, "guard", "item", "buyer")
    guard = shop.guards[parameters.choice("guard", DEFAULT, shop.guards)]
    purchase = Purchase(
        buyer=parameters.text("buyer", "anonymous"),
        guard=guard.name,
        item=str(parameters.whole("item", int(DEFAULT_ITEM), least=1, most=shop.settings.items)),
        instance=shop.settings.instance,
        listener=HeldPurchase(shop, guard, current_app.extensions["scenes"]),
    )
    try:
        receipt = guard.serve(purchase)
    except EXPECTED as error:
        receipt = refuse(purchase, error)
    return answer(purchase, receipt)


@scenes.post("/open", defaults={"may_write": True})
@scenes.delete("/held", defaults={"may_write": False})
def decide(may_write: bool) -> Response:
    """Let the purchases that stand there write, or have them give up."""
    require_admin(services.of(current_app).settings, "scenes")
    for held in list(current_app.extensions["scenes"].values()):
        held.decisions.put(may_write)
    return show_held()


def init_app(app: Flask) -> None:
    """Register the routes; the purchases that stand before their write are kept by their order."""
    app.extensions["scenes"] = dict[str, HeldPurchase]()
    app.register_blueprint(scenes)
