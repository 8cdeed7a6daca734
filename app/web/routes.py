"""The sale over HTTP: purchases, the stock, the guards, and the queue of the lock.

After a 503 nothing was written, so a retry is a new try, unless the document says ``"in_doubt": true``: then the order
may exist, and only a retry with the *same* Idempotency-Key is safe. It gets the order that exists, with the header
``Idempotency-Replayed: true``, or else buys. The same goes for a connection that broke without an answer. Only ``sold``
and ``sold_out`` are kept for a key, until the sale is reset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import UnprocessableEntity

from app import services
from app.config.settings import MOST_ITEMS
from app.contract.keys import DEFAULT_ITEM
from app.contract.outcomes import Outcome
from app.guards import DEFAULT
from app.sales.purchase import Purchase, Receipt
from app.sales.refusals import EXPECTED, KeyReused, refuse
from app.web.access import require_admin
from app.web.params import Parameters, checked_text
from app.web.responses import json_response, problem_response

LONGEST_HOLD_MS = 60_000
ITEMS_SET = ", as set by FLASHSALE_ITEMS"
SOLD_OUT = "Nothing is left, and trying again will not help until the sale is reset."
STATUS = {Outcome.SOLD: 200, Outcome.SOLD_OUT: 409}


@dataclass(frozen=True)
class Routes:
    """The routes of the sale, and what those of a lab share with them."""

    shop: services.Services

    def reduce(self) -> Response:
        """``POST /stock/reduce``: buy one item."""
        asked = Parameters(request, "guard", "item", "hold_ms", "buyer")
        guard = asked.choice("guard", DEFAULT, self.shop.guards)
        return self.sell(self.shop.guards[guard].serve, self.purchase(asked, guard, self._item(asked)))

    def sell(self, serve: Callable[[Purchase], Receipt], purchase: Purchase) -> Response:
        """The answer to a purchase: what `serve` returns, or the refusal for what it raises; counted."""
        try:
            with self.shop.metrics.in_progress.track_inprogress():
                receipt = serve(purchase)
        except EXPECTED as error:
            receipt = refuse(purchase, error)
        except KeyReused as error:
            raise UnprocessableEntity(f"{error}: use a new key for a new purchase.") from error
        self.shop.metrics.count(purchase, receipt)
        return _answered(purchase, receipt)

    def purchase(self, asked: Parameters, guard: str, item: str) -> Purchase:
        key = request.headers.get("Idempotency-Key")
        return Purchase(
            buyer=asked.text("buyer", "anonymous"),
            guard=guard,
            item=item,
            hold_s=asked.whole("hold_ms", 0, most=LONGEST_HOLD_MS) / 1000,
            key=None if key is None else checked_text("Idempotency-Key", key),
            instance=self.shop.settings.instance,
            listener=self.shop.listener,
        )

    def _item(self, asked: Parameters) -> str:
        return str(asked.whole("item", int(DEFAULT_ITEM), least=1, most=self.shop.settings.items, why=ITEMS_SET))

    def stock(self) -> Response:
        """``GET /stock``: counters and ledger of an item, and the verdict."""
        return self._stock_of(self._item(Parameters(request, "item")))

    def _stock_of(self, item: str) -> Response:
        now = self.shop.sale.snapshot(item)
        verdict = now.judge()
        counted = {name: getattr(now, name) for name in ("initial", "stock", "lucky", "orders", "in_transit")}
        judged = {"verdict": verdict.sentence, "kind": verdict.kind.value, "exact": verdict.exact}
        shards = [each._asdict() for each in now.shards]
        return json_response(
            {"item": item, **counted, "lost_updates": verdict.lost_updates, **judged, "shards": shards}
        )

    def reset(self) -> Response:
        """``POST /stock/reset``: reset the sale of all items; answers as ``GET /stock`` for the first one."""
        self.require_admin("resets")
        self.shop.sale.reset(Parameters(request, "stock").whole("stock", self.shop.settings.stock, most=MOST_ITEMS))
        return self._stock_of(DEFAULT_ITEM)

    def require_admin(self, what: str) -> None:
        """Accept only the administrator; see `app.web.access`."""
        require_admin(self.shop.settings.admin_token, on_loopback=self.shop.settings.on_loopback, what=what)

    def guards(self) -> Response:
        """``GET /guards``: the guards that a purchase may name, in the order in which they are shown."""
        listed = [
            {
                "name": guard.name,
                "promise": guard.promise.value,
                "description": guard.description,
                "order": guard.order,
                "loses_lock": guard.loses_lock,
            }
            for guard in self.shop.guards.values()
        ]
        return json_response({"guards": listed, "default": DEFAULT})

    def lock(self) -> Response:
        """``GET /lock``: the holder of an item's etcd mutex, and the waiters in order."""
        mutex = self.shop.sessions.mutex(self._item(Parameters(request, "item")))
        queue = [
            {
                "instance": contender.session,
                "owner": contender.owner,
                "key": contender.key,
                "token": contender.token,
                "age_s": None if contender.queued_s is None else round(contender.queued_s, 3),
                "ttl_s": contender.ttl_s,
            }
            for contender in mutex.contenders()
        ]
        return json_response({"name": mutex.name, "holder": queue[0] if queue else None, "waiters": queue[1:]})


def _answered(purchase: Purchase, receipt: Receipt) -> Response:
    section, waited_ms = purchase.section, _milliseconds(purchase.waited_s)
    members: dict[str, Any] = {
        "outcome": receipt.outcome.value,
        "item": purchase.item,
        "order": receipt.order,
        "stock": receipt.stock,
        "guard": receipt.guard,
        "token": receipt.token,
        "waited_ms": waited_ms,
        "held_ms": _milliseconds(section.held_s if section else 0.0),
    }
    if receipt.outcome is Outcome.SOLD:
        response = json_response(members)
    else:
        if receipt.outcome is Outcome.UNAVAILABLE:
            members["in_doubt"] = receipt.in_doubt
        status = STATUS.get(receipt.outcome, 503)
        response = problem_response(status, receipt.detail or SOLD_OUT, kind=receipt.outcome.value, **members)
    if receipt.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    read_s, commit_s = (section.read_s, section.commit_s) if section else (0.0, 0.0)
    response.headers["Server-Timing"] = (
        f"wait;dur={waited_ms}, read;dur={_milliseconds(read_s)}, commit;dur={_milliseconds(commit_s)}"
    )
    return response


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def init_app(app: Flask) -> None:
    """Register the routes of the sale."""
    routes = Routes(services.of(app))
    app.add_url_rule("/stock/reduce", view_func=routes.reduce, methods=["POST"])
    app.add_url_rule("/stock/reset", view_func=routes.reset, methods=["POST"])
    app.add_url_rule("/stock", view_func=routes.stock, methods=["GET"])
    app.add_url_rule("/guards", view_func=routes.guards, methods=["GET"])
    app.add_url_rule("/lock", view_func=routes.lock, methods=["GET"])
