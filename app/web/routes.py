"""The sale over HTTP: purchases, the stock, the queue of the lock, and the scheduled opening.

After a 503 nothing was written, so a retry is a new try, unless the document says ``"in_doubt": true``: then the order
may exist, and only a retry with the *same* Idempotency-Key is safe. It gets the order that exists, with the header
``Idempotency-Replayed: true``, or else buys. The same goes for a connection that broke without an answer. Only ``sold``
and ``sold_out`` are kept for a key, until the sale is reset.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest, Conflict, UnprocessableEntity

from app import services
from app.config.settings import MOST_ITEMS
from app.guards import DEFAULT, Guard
from labs.carts.shop import Carts, cart_of
from app.sales.opening import Opened
from app.sales.purchase import CART, DEFAULT_ITEM, Outcome, Purchase, Receipt
from app.sales.refusals import EXPECTED, KeyReused, refuse
from labs.opening.schedule import NoSchedule
from app.web.access import require_admin
from app.web.params import Parameters, checked_text
from app.web.responses import json_response, problem_response
from lock import Election

LONGEST_HOLD_MS = 60_000
LARGEST_CART = 20
ITEMS_SET = ", as set by FLASHSALE_ITEMS"
STOCK_MEMBERS = ("initial", "stock", "lucky", "orders", "in_transit", "lost_updates", "verdict")
SOLD_OUT = "Nothing is left, and trying again will not help until the sale is reset."
STATUS = {Outcome.SOLD: 200, Outcome.SOLD_OUT: 409, Outcome.NOT_OPEN: 409}
LONGEST_WAIT_S = 86_400  # until a sale opens
LONGEST_RETRY_AFTER_S = 60  # or a client misses a new schedule


@dataclass(frozen=True)
class Routes:
    """The routes of the sale."""

    shop: services.Services

    def reduce(self) -> Response:
        """``POST /stock/reduce``: buy one item."""
        asked = Parameters(request, "guard", "item", "hold_ms", "buyer")
        guard = asked.choice("guard", DEFAULT, self.shop.guards)
        return self._sell(self.shop.guards[guard], self._purchase(asked, guard, self._item(asked)))

    def cart(self) -> Response:
        """``POST /cart``: buy one piece of each of several items, or nothing."""
        asked = Parameters(request, "items", "hold_ms", "buyer")
        items = asked.several("items", least=1, most=self.shop.settings.items, count=LARGEST_CART, why=ITEMS_SET)
        return self._sell(self.shop.carts, self._purchase(asked, CART, cart_of(items)))

    def _sell(self, seller: Guard | Carts, purchase: Purchase) -> Response:
        try:
            with self.shop.metrics.in_progress.track_inprogress():
                receipt = seller.serve(purchase)
        except EXPECTED as error:
            receipt = refuse(purchase, error)
        except KeyReused as error:
            raise UnprocessableEntity(f"{error}: use a new key for a new purchase.") from error
        self.shop.metrics.count(purchase, receipt)
        return _answered(purchase, receipt)

    def _purchase(self, asked: Parameters, guard: str, item: str) -> Purchase:
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
        members = {name: getattr(now, name) for name in STOCK_MEMBERS}
        return json_response({"item": item, **members, "shards": [each._asdict() for each in now.shards]})

    def reset(self) -> Response:
        """``POST /stock/reset``: reset the sale of all items; answers as ``GET /stock`` for the first one."""
        self._require_admin("resets")
        self.shop.sale.reset(Parameters(request, "stock").whole("stock", self.shop.settings.stock, most=MOST_ITEMS))
        return self._stock_of(DEFAULT_ITEM)

    def _require_admin(self, what: str) -> None:
        require_admin(self.shop.settings.admin_token, on_loopback=self.shop.settings.on_loopback, what=what)

    def show_schedule(self) -> Response:
        """``GET /sale``: open, scheduled or closed, and the leader."""
        self.shop.sale.snapshot()  # opens the sale if it never was
        opened = self.shop.schedule.read() or Opened("", self.shop.settings.stock)
        leader = Election(self.shop.sessions.session(), self.shop.sale.record.election).leader()
        return json_response({**self._shown(opened), "stock": opened.stock, "leader": leader and leader.value})

    def _shown(self, opened: Opened) -> dict[str, Any]:
        if opened.is_open:
            at_ms = self.shop.schedule.opened_at_ms(opened)
            return {"state": "open", "opened_at": at_ms and opened._replace(opens_at_ms=at_ms).opens_at}
        if opened.opens_at_ms is None:
            return {"state": "closed"}
        left_s = max(opened.opens_at_ms / 1000 - time.time(), 0.0)
        return {"state": "scheduled", "opens_at": opened.opens_at, "opens_in_s": round(left_s, 3)}

    def set_schedule(self) -> Response:
        """``POST /sale/schedule``: close the sale until a set time."""
        self._require_admin("schedules")
        asked = Parameters(request, "stock", "opens_at", "opens_in_s")
        stock = asked.whole("stock", self.shop.settings.stock, most=MOST_ITEMS)
        self.shop.schedule.set(stock, _opens_at_ms(asked))
        return self.show_schedule()

    def cancel_schedule(self) -> Response:
        """``DELETE /sale/schedule``: leave the sale closed until it is reset or scheduled again."""
        self._require_admin("schedules")
        try:
            self.shop.schedule.cancel()
        except NoSchedule as error:
            raise Conflict(f"{error}.") from error
        return self.show_schedule()

    def guards(self) -> Response:
        """``GET /guards``: the guards that a purchase may name."""
        listed = [
            {"name": guard.name, "promise": guard.promise.value, "description": guard.description}
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


def _opens_at_ms(asked: Parameters) -> int:
    """The time of the opening in milliseconds since the epoch, given as a time or in seconds from now."""
    now_ms = time.time_ns() // 1_000_000
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


def _answered(purchase: Purchase, receipt: Receipt) -> Response:
    waited_ms = _milliseconds(purchase.waited_s)
    members: dict[str, Any] = {
        "outcome": receipt.outcome.value,
        "item": purchase.item,
        "order": receipt.order,
        "stock": receipt.stock,
        "guard": receipt.guard,
        "token": receipt.token,
        "waited_ms": waited_ms,
        "held_ms": _milliseconds(purchase.held_s),
    }
    if receipt.outcome is Outcome.SOLD:
        response = json_response(members)
    else:
        if receipt.outcome is Outcome.UNAVAILABLE:
            members["in_doubt"] = receipt.in_doubt
        status = STATUS.get(receipt.outcome, 503)
        if opened := receipt.opened:
            members["opens_at"] = opened.opens_at
        response = problem_response(status, receipt.detail or SOLD_OUT, kind=receipt.outcome.value, **members)
        if opened:
            response.headers["Retry-After"] = str(_retry_after_s(opened))
    if receipt.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    response.headers["Server-Timing"] = (
        f"wait;dur={waited_ms}, "
        f"read;dur={_milliseconds(purchase.read_s)}, commit;dur={_milliseconds(purchase.commit_s)}"
    )
    return response


def _retry_after_s(opened: Opened) -> int:
    """Whole seconds until a sale opens, by this instance's clock."""
    left_s = math.inf if opened.opens_at_ms is None else opened.opens_at_ms / 1000 - time.time()
    return math.ceil(min(max(left_s, 1), LONGEST_RETRY_AFTER_S))


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def init_app(app: Flask) -> None:
    """Register the routes of the sale."""
    routes = Routes(services.of(app))
    app.add_url_rule("/stock/reduce", view_func=routes.reduce, methods=["POST"])
    app.add_url_rule("/cart", view_func=routes.cart, methods=["POST"])
    app.add_url_rule("/stock/reset", view_func=routes.reset, methods=["POST"])
    app.add_url_rule("/stock", view_func=routes.stock, methods=["GET"])
    app.add_url_rule("/sale", view_func=routes.show_schedule, methods=["GET"])
    app.add_url_rule("/sale/schedule", view_func=routes.set_schedule, methods=["POST"])
    app.add_url_rule("/sale/schedule", view_func=routes.cancel_schedule, methods=["DELETE"])
    app.add_url_rule("/guards", view_func=routes.guards, methods=["GET"])
    app.add_url_rule("/lock", view_func=routes.lock, methods=["GET"])
